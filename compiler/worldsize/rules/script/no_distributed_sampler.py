"""A model is wrapped in ``DistributedDataParallel``, but its loader shuffles all rows on every rank.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.

Why: An epoch takes as long as on one GPU, and each row is seen once by every rank.

Bad::

    loader = DataLoader(rows, batch_size=args.batch_size, shuffle=True)

Good::

    loader = DataLoader(rows, batch_size=args.batch_size, sampler=DistributedSampler(rows))

Fix: Give the loader ``sampler=DistributedSampler(rows)`` in place of ``shuffle=True``.

Source: PyTorch documentation, ``DistributedDataParallel`` and ``DistributedSampler``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._module import constant, keyword
from worldsize.rules.script._program import Program, checks

RULE = Rule("WS903", "no-distributed-sampler", "warning", since="0.1.0", summary="every rank reads all rows")
_SHARDS = ("Sampler", "sampler", ".shard(", "split_by_node", "rank::", "islice", "IterableDataset", "Subset(")


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    if program.processes < 2 or not program.complete or program.says(*_SHARDS):
        return
    if not any(module.called("DistributedDataParallel") for module in program.modules):
        return
    for module in program.modules:
        for call in module.called("DataLoader"):
            if constant(keyword(call, "shuffle")) is True and keyword(call, "sampler") is None:
                message = "every rank reads all rows: nothing shares them out"
                help_ = "write `sampler=DistributedSampler(rows)` in place of `shuffle=True`"
                yield RULE.problem(module.span(call), message, help_, related=program.related)
                return

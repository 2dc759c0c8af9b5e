"""Horovod's ranks or optimizer are used, but ``hvd.init()`` is nowhere called.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.

Why: The first call fails on every rank, after the instances have started.

Bad::

    optimizer = hvd.DistributedOptimizer(optimizer)

Good::

    hvd.init()

Fix: Call ``hvd.init()`` before anything else of Horovod.

Source: Horovod documentation, Horovod with PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS910", "horovod-without-init", "error", since="0.1.0", summary="a Horovod call without `hvd.init()`"
)
_NEEDS = frozenset(
    {"rank", "local_rank", "size", "DistributedOptimizer", "broadcast_parameters", "allreduce"}
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    if not program.complete or program.says(".init("):
        return
    for module in program.modules:
        for name, call in module.calls:
            if name.startswith("horovod.") and name.rpartition(".")[2] in _NEEDS:
                message = f"`{name.rpartition('.')[2]}` is called, but `hvd.init()` never is"
                yield RULE.problem(
                    module.span(call), message, "call `hvd.init()` first", related=program.related
                )
                return

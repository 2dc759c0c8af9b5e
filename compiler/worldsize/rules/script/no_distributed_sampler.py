"""The data loader of a `DistributedDataParallel` model shuffles all rows on every rank."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.script import _edits
from worldsize.rules.script._module import constant_value, keyword_argument
from worldsize.rules.script._program import Program

_SHARDS = ("Sampler", "sampler", ".shard(", "split_by_node", "rank::", "islice", "IterableDataset", "Subset(")


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.processes < 2 or not program.complete or program.says(*_SHARDS):
        return
    if not any(module.called("DistributedDataParallel") for module in program.modules):
        return
    for module in program.modules:
        for call in module.called("DataLoader"):
            if (
                constant_value(keyword_argument(call, "shuffle")) is True
                and keyword_argument(call, "sampler") is None
            ):
                message = "every rank reads all rows: nothing divides them among the ranks"
                help_ = "write `sampler=DistributedSampler(rows)` in place of `shuffle=True`"
                fix = _edits.divide_rows(module, call)
                yield Finding(module.span(call), message, help_, related=program.related, fix=fix)
                return

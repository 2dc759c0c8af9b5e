"""A `DistributedSampler` is used for several epochs without `set_epoch`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.edits import call_set_epoch
from worldsize.scripts.module import Module, constant_value, find_mentions, keyword_argument
from worldsize.scripts.program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if not program.is_own_loop or program.says("set_epoch") or not _has_epochs(program):
        return
    for module in program.modules:
        for call in module.called("DistributedSampler"):
            if constant_value(keyword_argument(call, "shuffle")) is False:
                continue
            message = "nothing calls `set_epoch` of this sampler, so every epoch has the same order"
            help_ = "call `sampler.set_epoch(epoch)` at the start of each epoch"
            fix = call_set_epoch(module, call)
            yield Finding(module.span(call), message, help_, related=program.related, fix=fix)
            return


def _has_epochs(program: Program) -> bool:
    return any(module.once(_counts_epochs) for module in program.modules)


def _counts_epochs(module: Module) -> bool:
    return any(
        "epoch" in word.lower()
        for node in module.kinds.get(ast.For, ())
        for word in (*find_mentions(node.target), *find_mentions(node.iter))
    )

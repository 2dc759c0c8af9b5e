"""Horovod that is not initialized, or whose ranks start with different weights."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.edits import call_horovod_init
from worldsize.scripts.program import Program

_NEEDS = frozenset(
    {"rank", "local_rank", "size", "DistributedOptimizer", "broadcast_parameters", "allreduce"}
)


def check_horovod_without_init(context: Context, program: Program) -> Iterator[Finding]:
    if not program.complete or program.says(".init("):
        return
    for module in program.modules:
        for name, call in module.calls:
            if name.startswith("horovod.") and name.rpartition(".")[2] in _NEEDS:
                message = f"`{name.rpartition('.')[2]}` is called without `hvd.init()`"
                fix = call_horovod_init(module)
                help_ = "call `hvd.init()` first"
                yield Finding(module.span(call), message, help_, related=program.related, fix=fix)
                return


def check_horovod_without_broadcast(context: Context, program: Program) -> Iterator[Finding]:
    if not program.complete or program.says("roadcast", "elastic"):
        return
    for module in program.modules:
        for name, call in module.calls:
            if name.startswith("horovod.") and name.endswith(".DistributedOptimizer"):
                message = "gradients are averaged, but the ranks' weights are never made equal"
                help_ = "call `hvd.broadcast_parameters(model.state_dict(), root_rank=0)` before training"
                yield Finding(module.span(call), message, help_, related=program.related)
                return

"""A Horovod optimizer averages gradients, but the ranks start with different weights."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if not program.complete or program.says("roadcast", "elastic"):
        return
    for module in program.modules:
        for name, call in module.calls:
            if name.startswith("horovod.") and name.endswith(".DistributedOptimizer"):
                message = "gradients are averaged, but the ranks' weights are never made equal"
                help_ = "call `hvd.broadcast_parameters(model.state_dict(), root_rank=0)` before training"
                yield Finding(module.span(call), message, help_, related=program.related)
                return

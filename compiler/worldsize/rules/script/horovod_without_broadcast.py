"""A Horovod optimizer averages gradients, but nothing makes the weights equal at the start.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.

Why: Each rank applies the same steps to other weights: the models differ, and the saved one is worse than
it looks.

Bad::

    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

Good::

    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

Fix: Broadcast parameters and optimizer state from rank 0 before training.

Source: Horovod documentation, Horovod with PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS911",
    "horovod-without-broadcast",
    "warning",
    since="0.1.0",
    summary="ranks that start from different weights",
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    if not program.complete or program.says("roadcast"):
        return
    for module in program.modules:
        for name, call in module.calls:
            if name.startswith("horovod.") and name.endswith(".DistributedOptimizer"):
                message = "gradients are averaged, but the ranks' weights are never made equal"
                help_ = "call `hvd.broadcast_parameters(model.state_dict(), root_rank=0)` before training"
                yield RULE.problem(module.span(call), message, help_, related=program.related)
                return

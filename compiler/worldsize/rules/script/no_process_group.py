"""Several processes train, and none of them joins a process group.

This is read from the text of the script and of the modules beside it that it imports; nothing is run.
Scripts that import a framework which joins by itself (Accelerate, Lightning, Transformers, DeepSpeed, Ray
…) are left alone.

Why: Every GPU trains a model of its own on the same data, and the last one to finish overwrites the
others.

Bad::

    model = Net().to(device)

Good::

    torch.distributed.init_process_group("nccl")

Fix: Call ``torch.distributed.init_process_group()`` first, and wrap the model in
``DistributedDataParallel``.

Source: PyTorch documentation, ``torch.distributed``; Microsoft Learn, Distributed GPU training guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS901", "no-process-group", "warning", since="0.1.0", summary="processes that never join a process group"
)


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    if program.launch.kind != "pytorch" or program.processes < 2 or not program.complete:
        return
    if program.says("init_process_group", "init_device_mesh", "horovod") or not program.says(".backward("):
        return
    for module in program.modules:
        for name, level, statement in module.imports:
            if level == 0 and name.partition(".")[0] == "torch":
                message = "several processes train here, but nothing calls `init_process_group`"
                help_ = "call `init_process_group()` and wrap the model in `DistributedDataParallel`"
                yield RULE.problem(module.span(statement), message, help_, related=program.related)
                return

"""Several processes train without joining a process group."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.script._program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.launch.kind != "pytorch" or program.processes < 2 or not program.complete:
        return
    if program.says("init_process_group", "init_device_mesh", "horovod") or not program.says(".backward("):
        return
    for module in program.modules:
        for name, level, statement in module.imports:
            if level == 0 and name.partition(".")[0] == "torch":
                message = "several processes train here, but nothing calls `init_process_group`"
                help_ = "call `init_process_group()` and wrap the model in `DistributedDataParallel`"
                yield Finding(module.span(statement), message, help_, related=program.related)
                return

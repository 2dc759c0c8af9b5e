"""Several processes per instance use CUDA, but the script never reads `LOCAL_RANK`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.script._module import constant_value
from worldsize.rules.script._program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.launch.kind != "pytorch" or program.per_instance < 2 or not program.complete:
        return
    if program.says("LOCAL_RANK", "local_rank", "local-rank", "device_count", "VISIBLE_DEVICES"):
        return
    if not program.says("init_process_group"):
        return
    for module in program.modules:
        for node in module.nodes:
            is_call = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "cuda"
            )
            if is_call or constant_value(node) in ("cuda", "cuda:0"):
                message = "all processes of an instance use this GPU: no `LOCAL_RANK` is read"
                help_ = 'write `torch.device("cuda", int(os.environ["LOCAL_RANK"]))`'
                yield Finding(module.span(node), message, help_, related=program.related)
                return

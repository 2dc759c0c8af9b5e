"""Where a script uses the NCCL backend without checking for GPUs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.scripts.interface.read import runs_in_job
from worldsize.scripts.module import Module, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.settings import read_setting

_STARTS = ("init_process_group", "init_distributed")  # torch.distributed's and DeepSpeed's
_ASKS = ("cuda.is_available", "cuda.device_count", "is_nccl_available")


def find_nccl_calls(program: Program) -> Iterator[tuple[Module, ast.Call]]:
    """The calls that start a process group with ``"nccl"``; none of a program that asks for GPUs first."""
    if program.says(*_ASKS):
        return
    for module in program.modules:
        for call in module.called(*_STARTS):
            backend = (
                call.args[0]
                if call.args
                else keyword_argument(call, "backend") or keyword_argument(call, "dist_backend")
            )
            value = read_setting(program, module, backend)
            if isinstance(value, str) and value.lower() == "nccl" and runs_in_job(program, module, call):
                yield module, call

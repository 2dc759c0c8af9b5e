"""Several processes per instance use CUDA, but the script never reads `LOCAL_RANK`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.script import _edits
from worldsize.rules.script._module import Module, constant_value
from worldsize.rules.script._program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.kind != "pytorch" or program.per_instance < 2 or not program.complete:
        return
    if program.says("LOCAL_RANK", "local_rank", "local-rank", "device_count", "VISIBLE_DEVICES"):
        return
    if not program.says("init_process_group"):
        return
    uses = [(module, node) for module in program.modules for node in module.once(_choose_gpu)]
    for module, node in uses[:1]:
        message = "all processes of an instance use this GPU: no `LOCAL_RANK` is read"
        help_ = 'write `torch.device("cuda", int(os.environ["LOCAL_RANK"]))`'
        # One place of several would put the parts of a model on different GPUs.
        fix = _edits.choose_own_gpu(module, node) if len(uses) == 1 else None
        yield Finding(module.span(node), message, help_, related=program.related, fix=fix)


def _choose_gpu(module: Module) -> list[ast.AST]:
    """The places that name CUDA's device or the first of them."""
    return [
        node
        for node in module.nodes
        if constant_value(node) in ("cuda", "cuda:0")
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda")
    ]

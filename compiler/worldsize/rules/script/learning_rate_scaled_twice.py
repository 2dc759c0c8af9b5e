"""The script multiplies a learning rate that the plan has already scaled by the world size."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.module import Module
from worldsize.scripts.program import Program

_SIZES = {"size", "get_world_size", "world_size", "WORLD_SIZE"}
_RATE = re.compile(r"(?:^|_)lr(?:_|$)|learning_rate", re.IGNORECASE)


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if not _planned(program):
        return
    for module, node in program.find(_products):
        message = "the plan has scaled the learning rate, and it is multiplied by the world size here"
        help_ = "use it as it is given, or pass `${{plan.reference_learning_rate}}`"
        yield Finding(module.span(node), message, help_, related=program.related)


def _products(module: Module) -> list[ast.BinOp]:
    """Where something that is a learning rate is multiplied by something that is a number of processes."""
    sizes = module.holding(_SIZES.__contains__)
    rates = module.holding(_RATE.search) if sizes else set()
    return [
        node
        for node in module.kinds.get(ast.BinOp, ())
        if isinstance(node.op, ast.Mult)
        and ((node.left in rates and node.right in sizes) or (node.right in rates and node.left in sizes))
    ]


def _planned(program: Program) -> bool:
    """Whether the plan gives the script its learning rate."""
    arguments = program.launch.step.inputs
    return any(
        name in arguments and arguments[name].comment for name in ("learning_rate", "plan_learning_rate")
    )

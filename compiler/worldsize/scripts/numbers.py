"""The numbers that a script calculates from its arguments, its constants and the number of processes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import is_read_from
from worldsize.scripts.settings import read_value
from worldsize.scripts.values import find_single

_STEPS = 12  # from an expression to its parts and from a variable to its value
_LARGEST = 1e15
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# What TrainingArguments of Hugging Face calls a number of its own: the argument, and its default.
_DERIVED = {
    "train_batch_size": ("per_device_train_batch_size", 8),
    "eval_batch_size": ("per_device_eval_batch_size", 8),
}


def calculate(program: Program, module: Module, node: ast.AST | None, depth: int = _STEPS) -> float | None:
    """The number that an expression gives in each process of a step; None if it is not known."""
    number = _calculate(program, module, node, depth) if node is not None and depth else None
    return number if number is not None and abs(number) < _LARGEST else None


def _calculate(program: Program, module: Module, node: ast.AST, depth: int) -> float | None:
    if isinstance(node, ast.BinOp):
        return _apply(
            node, *(calculate(program, module, part, depth - 1) for part in (node.left, node.right))
        )
    if isinstance(node, ast.Call) and module.name_of(node.func) in ("int", "float") and len(node.args) == 1:
        return calculate(program, module, node.args[0], depth - 1)
    code = read_reached(program)
    if is_read_from(code, module, node, "world_size"):
        return _count_processes(program)
    value = read_value(program, module, node)
    if isinstance(value, str) and isinstance(node, ast.Attribute):
        value = program.launch.read_number(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    made = find_single(code, module, node.value) if isinstance(node, ast.Attribute) else None
    single = find_single(code, module, node) if isinstance(node, ast.Name) else None
    if made is not None and isinstance(node, ast.Attribute):
        return _read_field(program, *made, node.attr, depth)
    return calculate(program, *single, depth - 1) if single is not None else None


def _apply(node: ast.BinOp, left: float | None, right: float | None) -> float | None:
    apply = _ARITHMETIC.get(type(node.op))
    by_zero = right == 0 and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod)
    return None if left is None or right is None or apply is None or by_zero else apply(left, right)


def _count_processes(program: Program) -> int | None:
    return program.launch.world if program.inner is None else None


def _read_field(program: Program, module: Module, made: ast.AST, field: str, depth: int) -> float | None:
    """A field of an object by the argument of its name; of Hugging Face's also what follows from them."""
    if not isinstance(made, ast.Call) or any(keyword.arg is None for keyword in made.keywords):
        return None
    passed = keyword_argument(made, field)
    if passed is not None:
        return calculate(program, module, passed, depth - 1)
    if not module.name_of(made.func).startswith("transformers."):
        return None
    if field == "world_size":
        return _count_processes(program)
    name, default = _DERIVED.get(field, ("", 0))
    given = keyword_argument(made, name)
    if given is not None:
        return calculate(program, module, given, depth - 1)
    return default if name else 1 if field == "gradient_accumulation_steps" else None

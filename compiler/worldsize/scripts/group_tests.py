"""Conditions that hold in every process of a job with several, as Azure ML or a launcher starts them."""

from __future__ import annotations

import ast
import re

from worldsize.scripts.module import (
    Module,
    constant_value,
    is_environment,
    list_bindings,
    variable_read,
)

_SET = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"})
_COUNT = re.compile(r"world_?size$", re.IGNORECASE)
_ABOVE_ONE = ((ast.Gt, 1), (ast.NotEq, 1), (ast.GtE, 2))
_IS_RANK = ((ast.NotEq, -1), (ast.Gt, -1), (ast.GtE, 0))


def holds_in_group(module: Module, test: ast.AST, depth: int = 3) -> bool:
    """Whether a condition surely holds where the variables of `torch.distributed` are set for several."""
    if isinstance(test, ast.BoolOp):
        holds = [holds_in_group(module, each, depth) for each in test.values]
        return all(holds) if isinstance(test.op, ast.And) else any(holds)
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and _compare(module, test)
    if not isinstance(test, ast.Name | ast.Attribute) or not depth:
        return False
    name = test.id if isinstance(test, ast.Name) else test.attr
    values = [each for each in module.once(_list_values).get(name, []) if constant_value(each) is not False]
    return bool(values) and all(holds_in_group(module, each, depth - 1) for each in values)


def _compare(module: Module, test: ast.Compare) -> bool:
    op, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(op, ast.In):
        return constant_value(left) in _SET and is_environment(right)
    if isinstance(left, ast.Call) and module.name_of(left.func) == "int" and len(left.args) == 1:
        left = left.args[0]
    variable = variable_read(left)
    if isinstance(op, ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
        return variable in _SET
    number = constant_value(right.operand if isinstance(right, ast.UnaryOp) else right)
    if type(number) is not int:
        return False
    number = -number if isinstance(right, ast.UnaryOp) else number
    if any(isinstance(op, kind) and number == least for kind, least in _IS_RANK):
        return variable in ("RANK", "LOCAL_RANK")
    if not any(isinstance(op, kind) and number == least for kind, least in _ABOVE_ONE):
        return False
    word = left.func if isinstance(left, ast.Call) else left
    name = word.attr if isinstance(word, ast.Attribute) else getattr(word, "id", "")
    named = _COUNT.search(name) is not None and (
        "WORLD_SIZE" in module.text or "get_world_size" in module.text
    )
    return variable == "WORLD_SIZE" or named


def _list_values(module: Module) -> dict[str, list[ast.AST]]:
    """What each name and attribute is set to; the tree where that is not known.

    Parts of what a function returns are left out: they are set in the function, by the same name.
    """
    values: dict[str, list[ast.AST]] = {}
    for node, bound, position in list_bindings(module):
        value = bound
        if position is not None:
            if isinstance(bound, ast.Call):
                continue
            parts = bound.elts if isinstance(bound, ast.Tuple) else []
            value = parts[position] if position < len(parts) else module.tree
            if type(constant_value(value)) is int:
                continue  # `ddp, rank = 0, 0` of a script that runs by itself
        values.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(value)
    return values

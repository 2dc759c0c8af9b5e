"""Conditions that hold in every process of a job with several, as Azure ML or a launcher starts them."""

from __future__ import annotations

import ast
import re

from worldsize.rules.script._module import Module, constant_value, is_environment, variable_read

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
    for node in (*module.kinds.get(ast.Name, ()), *module.kinds.get(ast.Attribute, ())):
        if isinstance(node.ctx, ast.Load):
            continue
        above = module.parents.get(node)
        name = node.id if isinstance(node, ast.Name) else node.attr
        value = above.value if isinstance(above, ast.Assign | ast.AnnAssign) else None
        if isinstance(above, ast.Tuple) and isinstance(assign := module.parents.get(above), ast.Assign):
            if isinstance(assign.value, ast.Call):
                continue
            parts = assign.value.elts if isinstance(assign.value, ast.Tuple) else []
            value = parts[above.elts.index(node)] if len(parts) == len(above.elts) else None
            if type(constant_value(value)) is int:
                continue  # `ddp, rank = 0, 0` of a script that runs by itself
        values.setdefault(name, []).append(value if value is not None else module.tree)
    return values

"""Conditions that hold on the first process only, or on all others only."""

from __future__ import annotations

import ast
import re
from typing import Literal

from worldsize.scripts.module import Module, constant_value, variable_read

Side = Literal["first", "others"]
_OTHER: dict[Side, Side] = {"first": "others", "others": "first"}
_RANK = re.compile(r"(?:^|_|my)rank$|process_index$", re.IGNORECASE)
_FIRST = re.compile(
    r"_*is_(?:\w+_)?(?:main|master|chief|root|primary|leader|zero|rank_?(?:zero|0))(?:_process|_rank|_node|_worker)?"
    r"|(?:main|master|chief|root|primary)_(?:process|rank|proc|worker)",
    re.IGNORECASE,
)
_OTHER_RANKS = re.compile(r"lora|matrix|low_rank|full|num|max|total", re.IGNORECASE)
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK")
_ALONE = re.compile(r"initialized|available|distributed|world_size|\bddp\b|multi_?gpu", re.IGNORECASE)
_LOCAL = re.compile(r"local", re.IGNORECASE)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def read_side(module: Module, test: ast.AST, depth: int = 4) -> Side | None:
    """Which processes a condition surely chooses: the first or the others; None of any other condition."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        side = "others" if _is_rank(module, test.operand) else read_side(module, test.operand, depth)
        return _OTHER[side] if side else None
    if isinstance(test, ast.BoolOp):
        return _join_sides(module, test, depth)
    if isinstance(test, ast.Compare):
        return _compare(module, test) if len(test.ops) == 1 else None
    if _is_rank(module, test):
        return "others"
    if _FIRST.fullmatch(_last_name(test) or ""):
        return "first"
    values = module.once(_list_values).get(ast.unparse(test), []) if depth else []
    return read_side(module, values[0], depth - 1) if len(values) == 1 else None


def _join_sides(module: Module, test: ast.BoolOp, depth: int) -> Side | None:
    """The side of ``rank == 0 and …``, or of ``rank == 0 or not dist.is_initialized()``."""
    sides = [(each, read_side(module, each, depth)) for each in test.values]
    known = {side for _, side in sides if side is not None}
    clear = isinstance(test.op, ast.And) or all(
        side is not None or _ALONE.search(ast.unparse(each)) for each, side in sides
    )
    return known.pop() if len(known) == 1 and clear else None


def is_local(test: ast.AST) -> bool:
    """Whether the condition counts the processes of one instance."""
    return _LOCAL.search(ast.unparse(test)) is not None


def _compare(module: Module, test: ast.Compare) -> Side | None:
    left, right, op = test.left, test.comparators[0], test.ops[0]
    if constant_value(left) == 0 and _is_rank(module, right):
        left, right = right, left
    if not _is_rank(module, left):
        return None
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List | ast.Set):
        numbers = {-1 if isinstance(each, ast.UnaryOp) else constant_value(each) for each in right.elts}
        if numbers <= {0, -1}:
            return "first" if isinstance(op, ast.In) else "others"
    if constant_value(right) == 0 and type(constant_value(right)) is int:
        if isinstance(op, ast.Eq | ast.Is | ast.LtE):
            return "first"
        return "others" if isinstance(op, ast.NotEq | ast.IsNot | ast.Gt) else None
    if isinstance(op, ast.Lt) and constant_value(right) == 1:
        return "first"
    return None


def _is_rank(module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether an expression is the number of the process."""
    if isinstance(node, ast.Call) and module.name_of(node.func) in ("int", "str") and len(node.args) == 1:
        return _is_rank(module, node.args[0], depth)
    if variable_read(node) in _RANK_VARIABLES:
        return True
    name = _last_name(node)
    if name is not None and _RANK.search(name) and not _OTHER_RANKS.search(name):
        return True
    if isinstance(node, ast.Name | ast.Attribute) and depth:
        values = module.once(_list_values).get(ast.unparse(node), [])
        return len(values) == 1 and _is_rank(module, values[0], depth - 1)
    return False


def _last_name(node: ast.AST) -> str | None:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _list_values(module: Module) -> dict[str, list[ast.AST]]:
    """What each variable is set to by a plain assignment; of a parameter nothing is known."""
    values: dict[str, list[ast.AST]] = {}
    for node in module.kinds.get(ast.Assign, ()):
        for target in node.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                values.setdefault(ast.unparse(target), []).append(node.value)
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for one, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(one, ast.Name):
                        values.setdefault(one.id, []).append(value)
    for arg in module.kinds.get(ast.arg, ()):
        values.setdefault(arg.arg, []).append(arg)
    return values


def find_guards(module: Module, node: ast.AST) -> list[tuple[Side, ast.AST]]:
    """The sides on which a node is reached inside of its function, each with the condition."""
    guards: list[tuple[Side, ast.AST]] = []
    for above, child in module.ancestors(node):
        if isinstance(above, ast.If | ast.IfExp) and child is not above.test:
            side = read_side(module, above.test)
            if side is not None:
                in_body = child is above.body if isinstance(above, ast.IfExp) else child in above.body
                guards.append((side if in_body else _OTHER[side], above.test))
        guards += _find_left(module, above, child)
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [_last_name(each) or "" for each in above.decorator_list]
            guards += [
                ("first", above) for name in names if re.fullmatch(r"rank_zero_only|on_main_process", name)
            ]
            break
    return guards


def _find_left(module: Module, above: ast.AST, child: ast.AST) -> list[tuple[Side, ast.AST]]:
    """The sides that ``if rank != 0: return`` before a statement of the same block leaves."""
    for block in (getattr(above, "body", None), getattr(above, "orelse", None)):
        if isinstance(block, list) and child in block:
            return [
                (_OTHER[side], each.test)
                for each in block[: block.index(child)]
                if isinstance(each, ast.If)
                and _leaves(each.body[-1])
                and not each.orelse
                and (side := read_side(module, each.test)) is not None
            ]
    return []


def _leaves(statement: ast.stmt) -> bool:
    """Whether what follows a statement in its block is not reached."""
    called = (
        statement.value.func
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        else None
    )
    return isinstance(statement, _LEAVES) or (called is not None and _last_name(called) in ("exit", "_exit"))

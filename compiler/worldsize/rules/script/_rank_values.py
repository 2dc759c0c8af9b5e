"""What an expression is surely read from: an environment variable, or a function of a library."""

from __future__ import annotations

import ast
from typing import NamedTuple

from worldsize.rules.script._module import Module, variable_read
from worldsize.rules.script._reached import Reached, find_scope


class Source(NamedTuple):
    """The variables and functions that give one kind of rank."""

    variables: frozenset[str]
    calls: frozenset[str] = frozenset()


def is_read_from(reached: Reached, module: Module, node: ast.AST, source: Source, depth: int = 5) -> bool:
    """Whether an expression is surely what one of the variables or functions gives."""
    if isinstance(node, ast.Name | ast.Attribute):
        place = find_scope(module, node), node.id if isinstance(node, ast.Name) else f".{node.attr}"
        known: dict[object, bool] = module.memo.setdefault((is_read_from, source), {})
        if place not in known:
            known[place] = False  # where it is set to itself
            values = _find_values(reached, module, node)
            known[place] = bool(values and depth) and all(
                is_read_from(reached, *each, source, depth - 1) for each in values
            )
        return known[place]
    if isinstance(node, ast.Call):
        name = module.name_of(node.func)
        if name in ("int", "str") and len(node.args) == 1 and depth:
            return is_read_from(reached, module, node.args[0], source, depth - 1)
        return name in source.calls or variable_read(node) in source.variables
    return variable_read(node) in source.variables


def _find_values(
    reached: Reached, module: Module, name: ast.Name | ast.Attribute
) -> list[tuple[Module, ast.AST]]:
    """What a name is set to: by assignments, or by the calls of the function that has it as a parameter."""
    if isinstance(name, ast.Attribute):
        return [(module, each) for each in module.once(_list_values).get(name.attr, [])]
    scope = find_scope(module, name)
    arguments = getattr(scope, "args", None)
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)] if arguments is not None else []
    if name.id not in names:
        return [(module, value) for value in module.once(_list_values).get(name.id, [])]
    position = names.index(name.id)
    values: list[tuple[Module, ast.AST]] = []
    for other in reached.modules:
        for _, call in other.callers.get(getattr(scope, "name", ""), ())[:20]:
            keyword = [one.value for one in call.keywords if one.arg == name.id]
            given = call.args[position : position + 1] or keyword
            if len(given) != 1:
                return []
            values.append((other, given[0]))
    mentioned = sum(
        each.id == getattr(scope, "name", "")
        for other in reached.modules
        for each in other.kinds.get(ast.Name, ())
    )
    return values if mentioned == len(values) else []  # else something else calls it, such as `mp.spawn`


def _list_values(module: Module) -> dict[str, list[ast.AST]]:
    """What each variable and attribute is set to; a value that is not known stands as the tree."""
    values: dict[str, list[ast.AST]] = {}
    for node in (*module.kinds.get(ast.Name, ()), *module.kinds.get(ast.Attribute, ())):
        if isinstance(node.ctx, ast.Load):
            continue
        above = module.parents.get(node)
        simple = isinstance(above, ast.Assign) or (
            isinstance(above, ast.AnnAssign) and above.value is not None
        )
        value = (
            above.value
            if isinstance(above, ast.Assign | ast.AnnAssign) and simple and above.value
            else module.tree
        )
        values.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(value)
    for arg in module.kinds.get(ast.arg, ()):
        if arg.arg in values:
            values[arg.arg].append(module.tree)
    return values

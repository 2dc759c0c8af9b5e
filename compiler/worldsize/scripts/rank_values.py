"""What an expression is surely read from: an environment variable, or a function of a library."""

from __future__ import annotations

import ast
from typing import NamedTuple

from worldsize.scripts.module import (
    Module,
    constant_value,
    is_conditional,
    keyword_argument,
    list_bindings,
    variable_read,
)
from worldsize.scripts.reached import Function, Reached, find_scope


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
            known[place] = depth > 0 and _are_read(reached, values, source, depth)
        return known[place]
    if isinstance(node, ast.IfExp) and depth:
        return _are_read(reached, [(module, node.body), (module, node.orelse)], source, depth)
    if isinstance(node, ast.Call):
        name = module.name_of(node.func)
        if name in ("int", "str") and len(node.args) == 1 and depth:
            return is_read_from(reached, module, node.args[0], source, depth - 1)
        if name in source.calls or variable_read(node) in source.variables:
            return True
        return depth > 0 and _are_read(reached, _find_returned(reached, module, node), source, depth)
    entry = _find_entry(module, node) if isinstance(node, ast.Subscript) and depth else None
    return variable_read(node) in source.variables or (
        entry is not None and is_read_from(reached, module, entry, source, depth - 1)
    )


def _find_entry(module: Module, node: ast.Subscript) -> ast.expr | None:
    """What `ranks["global"]` is, in a dictionary that is written out and set once."""
    stores = module.stores(node.value.id) if isinstance(node.value, ast.Name) else ()
    made = module.parents.get(stores[0]) if len(stores) == 1 else None
    listed, wanted = getattr(made, "value", None), constant_value(node.slice)
    if not isinstance(listed, ast.Dict) or wanted is None:
        return None
    pairs = zip(listed.keys, listed.values, strict=True)
    return next((value for key, value in pairs if constant_value(key) == wanted), None)


def _are_read(reached: Reached, values: list[tuple[Module, ast.AST]], source: Source, depth: int) -> bool:
    """Whether all values are; a fixed number beside them is for the script that runs by itself."""
    others = [each for each in values if not _is_number(each[1])]
    return bool(others) and all(is_read_from(reached, *each, source, depth - 1) for each in others)


def _is_number(node: ast.AST) -> bool:
    return type(constant_value(node.operand if isinstance(node, ast.UnaryOp) else node)) is int


def _find_returned(
    reached: Reached, module: Module, call: ast.Call, position: int | None = None
) -> list[tuple[Module, ast.AST]]:
    """What a function of the script returns, or one part of it; the tree stands for what is not known."""
    found = reached.find(module, call.func)
    if len(found) != 1 or found[0][1].name == "__init__":
        return [(module, module.tree)]
    return _list_returned(*found[0], position)


def _find_property(reached: Reached, name: str) -> list[tuple[Module, ast.AST]]:
    """What the one property of a name returns."""
    found = reached.functions.get(name, [])
    decorators = found[0][1].decorator_list if len(found) == 1 else []
    names = [getattr(each, "id", getattr(each, "attr", "")) for each in decorators]
    return _list_returned(*found[0], None) if names in (["property"], ["cached_property"]) else []


def _list_returned(other: Module, function: Function, position: int | None) -> list[tuple[Module, ast.AST]]:
    returned: list[tuple[Module, ast.AST]] = []
    for each in other.kinds.get(ast.Return, ()):
        if find_scope(other, each) is function:
            value = each.value
            if position is not None:
                parts = value.elts if isinstance(value, ast.Tuple) else ()
                value = parts[position] if position < len(parts) else other.tree
            returned.append((other, value or other.tree))
    return returned


def _find_values(
    reached: Reached, module: Module, name: ast.Name | ast.Attribute
) -> list[tuple[Module, ast.AST]]:
    """What a name is set to: by assignments, or by the calls of the function that has it as a parameter."""
    if isinstance(name, ast.Attribute):
        set_to = module.once(_list_values).get((None, name.attr), [])
        if not set_to:
            return _find_made(reached, name.attr) or _find_property(reached, name.attr)
        return _open_calls(reached, module, set_to)
    scope = find_scope(module, name)
    arguments = getattr(scope, "args", None)
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)] if arguments is not None else []
    listed = module.once(_list_values)
    if name.id not in names:
        place = (scope, name.id) if (scope, name.id) in listed else (module.tree, name.id)
        values = listed.get(place, [])
        return _open_calls(reached, module, [] if _is_overwritten(module, values) else values)
    if (scope, name.id) in listed:
        return []  # a parameter that is set again
    position = names.index(name.id)
    given_values: list[tuple[Module, ast.AST]] = []
    for other in reached.modules:
        for _, call in other.callers.get(getattr(scope, "name", ""), ())[:20]:
            keyword = [one.value for one in call.keywords if one.arg == name.id]
            given = call.args[position : position + 1] or keyword
            if len(given) != 1:
                return []
            given_values.append((other, given[0]))
    mentioned = sum(
        each.id == getattr(scope, "name", "")
        for other in reached.modules
        for each in other.kinds.get(ast.Name, ())
    )
    # else something else calls it, such as `mp.spawn`
    return given_values if mentioned == len(given_values) else []


def _find_made(reached: Reached, field: str) -> list[tuple[Module, ast.AST]]:
    """What a field of a dataclass or named tuple is given where its objects are made."""
    declared = {
        each.name: names
        for found in reached.classes.values()
        for _, each in found
        if field in (names := [_name_field(line) for line in each.body if isinstance(line, ast.AnnAssign)])
    }
    if len(declared) != 1:
        return []
    ((name, fields),) = declared.items()
    position = fields.index(field)
    made = [(module, call) for module in reached.modules for call in module.called(name)]
    given = [
        (module, keyword_argument(call, field) or next(iter(call.args[position : position + 1]), None))
        for module, call in made
    ]
    return [(module, value or module.tree) for module, value in given]


def _name_field(line: ast.AnnAssign) -> str:
    return line.target.id if isinstance(line.target, ast.Name) else ""


def _is_overwritten(module: Module, values: list[tuple[ast.AST, int | None]]) -> bool:
    """Whether a fixed number is what the name is set to last, in any case."""
    last = max((value for value, _ in values), key=lambda value: getattr(value, "lineno", 0), default=None)
    return last is not None and _is_number(last) and not is_conditional(module, last)


def _open_calls(
    reached: Reached, module: Module, values: list[tuple[ast.AST, int | None]]
) -> list[tuple[Module, ast.AST]]:
    """Each value; of `rank, size = setup()` the part of what the function returns."""
    opened: list[tuple[Module, ast.AST]] = []
    for value, position in values:
        if position is None:
            opened.append((module, value))
        elif isinstance(value, ast.Call):
            opened += _find_returned(reached, module, value, position)
        else:
            parts = value.elts if isinstance(value, ast.Tuple) else ()
            opened.append((module, parts[position] if position < len(parts) else module.tree))
    return opened


def _list_values(module: Module) -> dict[tuple[ast.AST | None, str], list[tuple[ast.AST, int | None]]]:
    """What each variable of a function, and each attribute, is set to, with the position in a tuple.

    A value that is not known stands as the tree.
    """
    values: dict[tuple[ast.AST | None, str], list[tuple[ast.AST, int | None]]] = {}
    shared = {
        name
        for kind in (ast.Global, ast.Nonlocal)
        for node in module.kinds.get(kind, ())
        for name in node.names
    }
    for node, value, position in list_bindings(module):
        name = node.id if isinstance(node, ast.Name) else node.attr
        scope = None if isinstance(node, ast.Attribute) else find_scope(module, node)
        values.setdefault((module.tree if name in shared and scope else scope, name), []).append(
            (value, position)
        )
    return values

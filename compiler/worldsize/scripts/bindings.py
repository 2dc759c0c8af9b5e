"""Where one file binds its names and attributes, and what a call passes for a parameter."""

from __future__ import annotations

import ast
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from worldsize.scripts.module import Module, keep, keyword_argument

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = Function | ast.Module
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OWNERS = (*FUNCTIONS, ast.ClassDef, ast.Module)


class Binding(NamedTuple):
    """One place that binds a name or attribute."""

    target: ast.Name | ast.Attribute
    value: ast.expr | None  # None where it is not known, as of the target of a loop
    position: int | None = None  # which part of the value, where several are unpacked


class Bindings(Struct, eq=False):
    """All bindings of a file: names by the function, class or file that owns them, attributes by name."""

    names: dict[tuple[ast.AST, str], list[Binding]] = field(default_factory=dict)
    attributes: dict[str, list[Binding]] = field(default_factory=dict)


def find_owner(module: Module, node: ast.AST) -> ast.AST:
    """The function, class or file whose names a statement binds."""
    return next((above for above, _ in module.ancestors(node) if isinstance(above, _OWNERS)), module.tree)


def find_scope(module: Module, node: ast.AST) -> Scope:
    """The function around a node, or the tree of its module."""
    return module.once(_list_scopes).get(node, module.tree)


def _list_scopes(module: Module) -> dict[ast.AST, Scope]:
    """The function around each node; parents come before their children."""
    scopes: dict[ast.AST, Scope] = {}
    for node, above in module.parents.items():
        scope = above if isinstance(above, FUNCTIONS) else scopes.get(above)
        if scope is not None:
            scopes[node] = scope
    return scopes


@keep
def read_bindings(module: Module) -> Bindings:
    """Every place of a file that binds a name or an attribute."""
    kinds = module.kinds
    pairs = [
        (target, assignment.value)
        for assignment in kinds.get(ast.Assign, ())
        for target in assignment.targets
    ]
    pairs += [(node.target, node.value) for node in kinds.get(ast.AnnAssign, ()) if node.value is not None]
    pairs += [
        (item.optional_vars, item.context_expr)
        for node in (*kinds.get(ast.With, ()), *kinds.get(ast.AsyncWith, ()))
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
    ]
    pairs += [(node.target, node.value) for node in kinds.get(ast.NamedExpr, ())]
    targets = {
        part: (value, position) for target, value in pairs for part, value, position in _unpack(target, value)
    }
    shared = {
        name for kind in (ast.Global, ast.Nonlocal) for node in kinds.get(kind, ()) for name in node.names
    }
    unknown = [
        node
        for kind in (ast.Name, ast.Attribute)
        for node in kinds.get(kind, ())
        if isinstance(node.ctx, ast.Store) and node not in targets
    ]
    bindings = Bindings()
    for target, (value, position) in (*targets.items(), *((node, (None, None)) for node in unknown)):
        if isinstance(target, ast.Attribute):
            bindings.attributes.setdefault(target.attr, []).append(Binding(target, value, position))
        elif isinstance(target, ast.Name):
            owner = find_owner(module, target)
            owner = module.tree if target.id in shared and isinstance(owner, FUNCTIONS) else owner
            bindings.names.setdefault((owner, target.id), []).append(Binding(target, value, position))
    return bindings


def _unpack(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr, int | None]]:
    """The targets with their values and, if a call or name is unpacked, the position in it."""
    if not isinstance(target, ast.Tuple | ast.List):
        return [(target, value, None)]
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else None
    if any(isinstance(element, ast.Starred) for element in (*target.elts, *(parts or ()))):
        return []
    if parts is None:
        return [(element, value, position) for position, element in enumerate(target.elts)]
    return [(element, part, None) for element, part in zip(target.elts, parts, strict=False)]


def list_parameters(function: Function) -> list[tuple[ast.arg, ast.expr | None]]:
    """The parameters of a function in their order, each with its default."""
    positional = [*function.args.posonlyargs, *function.args.args]
    without = [None] * (len(positional) - len(function.args.defaults))
    defaults = [*without, *function.args.defaults, *function.args.kw_defaults]
    return list(zip([*positional, *function.args.kwonlyargs], defaults, strict=True))


def is_parameter(function: ast.AST, name: str) -> bool:
    """Whether a function takes a parameter of this name."""
    return isinstance(function, FUNCTIONS) and any(
        parameter.arg == name for parameter, _ in list_parameters(function)
    )


def find_argument(module: Module, call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """The argument that a call passes for a parameter; None if absent or unknown.

    ``module`` has the function: of a method the first parameter is the object.
    """
    passed = keyword_argument(call, name)
    names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
    if passed is not None or name not in names:
        return passed
    position = names.index(name) - is_method(module, function)
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return call.args[position] if 0 <= position < len(call.args) and not starred else None


def is_method(module: Module, function: Function) -> bool:
    """Whether the first parameter of a function is an object or a class, which calls do not write."""
    static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in function.decorator_list)
    return isinstance(module.parents.get(function), ast.ClassDef) and not static


def find_default(function: Function, name: str) -> ast.expr | None:
    """The default of a parameter."""
    return next((default for parameter, default in list_parameters(function) if parameter.arg == name), None)


def find_entry(mapping: ast.AST | None, key: object) -> ast.expr | None:
    """The value of a key in ``{"key": …}`` or ``dict(key=…)``."""
    if isinstance(mapping, ast.Dict):
        for name, value in zip(mapping.keys, mapping.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                return value
    if isinstance(mapping, ast.Call) and getattr(mapping.func, "id", "") == "dict":
        return next((keyword.value for keyword in mapping.keywords if keyword.arg == key), None)
    return None

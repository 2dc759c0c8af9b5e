"""Which code of a script runs when it is started, and which surely does.

The text is read, not run: functions and classes are followed by the names that stand in code which runs.
Reading too much only makes a rule silent, so whatever a name can mean is followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import PurePath
from typing import TypeAlias

from msgspec import Struct, field

from worldsize.scripts.group_tests import holds_in_group
from worldsize.scripts.module import Module, speaks_of_main

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Place: TypeAlias = tuple[Module, ast.AST]  # a function, or the tree of a module for what is outside of all
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST = 30  # functions of one name that are followed
_ENDS_PROGRAM = {"SystemExit", "BaseException"}


class Reached(Struct, eq=False):
    """The functions of the modules, by name, and the places that are reached from the script."""

    modules: tuple[Module, ...]
    functions: dict[str, list[tuple[Module, Function]]] = field(default_factory=dict)
    classes: dict[str, list[tuple[Module, ast.ClassDef]]] = field(default_factory=dict)
    maybe: set[ast.AST] = field(default_factory=set)
    surely: set[ast.AST] = field(default_factory=set)
    known: dict[object, list[tuple[Module, Function]]] = field(default_factory=dict)
    edges: dict[ast.AST, list[tuple[Place, ast.AST, bool]]] = field(default_factory=dict)
    grouped: set[ast.AST] = field(default_factory=set)  # surely reached where several processes start

    def runs(self, module: Module, node: ast.AST) -> bool:
        """Whether a node may run."""
        return find_scope(module, node) in self.maybe and not self.is_other_main(module, node)

    def surely_runs(self, module: Module, node: ast.AST) -> bool:
        """Whether a node runs each time that the script is started."""
        sure = find_scope(module, node) in self.surely and not self.is_other_main(module, node)
        return sure and node not in module.once(_list_conditional)

    def runs_in_group(self, module: Module, node: ast.AST) -> bool:
        """Whether a node runs in each process of a job that starts several with the variables of torch."""
        if not self.grouped:
            _spread(self, self.grouped, lambda each: each.once(_list_conditional, True))
        sure = find_scope(module, node) in self.grouped and not self.is_other_main(module, node)
        return sure and node not in module.once(_list_conditional, True)

    def find(self, module: Module, name: ast.AST) -> list[tuple[Module, Function]]:
        """The functions that a name or attribute may mean; of a class those that make an object of it."""
        if isinstance(name, ast.Name):
            key: object = (module, name.id)
        elif isinstance(name, ast.Attribute):
            owner = module.names.get(name.value.id) if isinstance(name.value, ast.Name) else None
            key = (owner, name.attr, None)
        else:
            return []
        if key not in self.known:
            found = (
                self._named(module, name.id) if isinstance(name, ast.Name) else self._method(owner, name.attr)
            )
            self.known[key] = found[:_MOST]
        return self.known[key]

    def _method(self, owner: str | None, name: str) -> list[tuple[Module, Function]]:
        methods = self.functions.get(name, [])
        if owner is None:
            return [each for each in methods if _class_of(*each) is not None]
        last = owner.rpartition(".")[2]
        if last in self.classes:
            return [each for each in methods if getattr(_class_of(*each), "name", None) == last]
        return [each for each in methods if _class_of(*each) is None and _stem(each[0]) == last]

    def _named(self, module: Module, name: str) -> list[tuple[Module, Function]]:
        imported = module.names.get(name)
        real = name if imported is None else imported.rpartition(".")[2]
        functions = [
            each
            for each in self.functions.get(real, ())
            if (each[0] is module) == (imported is None) and _class_of(*each) is None
        ]
        makers = [
            (other, method)
            for other, each in self.classes.get(real, ())
            for method in each.body
            if isinstance(method, _FUNCTIONS) and method.name in ("__init__", "__post_init__", "__new__")
        ]
        return functions + makers

    def is_other_main(self, module: Module, node: ast.AST) -> bool:
        """Whether it stands under ``if __name__ == "__main__":`` of a module that is imported."""
        return module is not self.modules[0] and node in module.once(_list_main_nodes)


def find_scope(module: Module, node: ast.AST) -> ast.AST:
    """The function around a node, or the tree of its module."""
    return module.once(_list_scopes).get(node, module.tree)


def follow(_entry: Module, modules: tuple[Module, ...]) -> Reached:
    """What is reached from a script, whose ``modules`` begin with it; for :meth:`Module.once`."""
    reached = Reached(modules)
    for module in modules:
        for kind in _FUNCTIONS:
            for each in module.kinds.get(kind, ()):
                reached.functions.setdefault(each.name, []).append((module, each))
        for each in module.kinds.get(ast.ClassDef, ()):
            reached.classes.setdefault(each.name, []).append((module, each))
    edges = reached.edges
    for module in modules:
        scopes = module.once(_list_scopes)
        for name in (*module.kinds.get(ast.Name, ()), *module.kinds.get(ast.Attribute, ())):
            word = name.id if isinstance(name, ast.Name) else name.attr
            if word in reached.functions or word in reached.classes or word in module.names:
                above = module.parents.get(name)
                called = isinstance(above, ast.Call) and above.func is name
                for place in reached.find(module, name):
                    edges.setdefault(scopes.get(name, module.tree), []).append(
                        ((module, name), place[1], called)
                    )
    _spread(reached, reached.maybe)
    _spread(reached, reached.surely, lambda each: each.once(_list_conditional))
    return reached


def _spread(
    reached: Reached, into: set[ast.AST], conditional: Callable[[Module], set[ast.AST]] | None = None
) -> None:
    """Add the functions that are reached; only by calls that are not conditional, where that is given."""
    waiting: list[ast.AST] = [module.tree for module in reached.modules]
    while waiting:
        scope = waiting.pop()
        if scope in into:
            continue
        into.add(scope)
        for (module, name), function, called in reached.edges.get(scope, ()):
            if conditional is not None and not (called and name not in conditional(module)):
                continue
            if not reached.is_other_main(module, name):
                waiting.append(function)


def _stem(module: Module) -> str:
    path = PurePath(module.source.path)
    return path.parent.name if path.stem == "__init__" else path.stem


def _class_of(module: Module, function: Function) -> ast.ClassDef | None:
    above = module.parents.get(function)
    return above if isinstance(above, ast.ClassDef) else None


def _list_scopes(module: Module) -> dict[ast.AST, ast.AST]:
    """The function around each node; parents come before their children."""
    scopes: dict[ast.AST, ast.AST] = {}
    for node, above in module.parents.items():
        scope = above if isinstance(above, _FUNCTIONS) else scopes.get(above)
        if scope is not None:
            scopes[node] = scope
    return scopes


def _list_conditional(module: Module, in_group: bool = False) -> set[ast.AST]:
    """The nodes that do not run each time that their function does."""
    branches = _list_branches(module)
    if in_group:
        tests = [node for node in module.kinds.get(ast.If, ()) if holds_in_group(module, node.test)]
        branches -= {child for node in tests for child in node.body}
    branches |= _list_skipped(module)
    conditional: set[ast.AST] = set()
    for node, above in module.parents.items():
        if node in branches or (above in conditional and not isinstance(above, _FUNCTIONS)):
            conditional.add(node)
    return conditional


def _list_skipped(module: Module) -> set[ast.AST]:
    """The statements behind an ``if`` that returns."""
    first: dict[int, list[ast.stmt]] = {}
    for node in module.kinds.get(ast.If, ()):
        block = getattr(module.parents[node], "body", None)
        returns = isinstance(node.body[-1], ast.Return)
        if returns and isinstance(block, list) and id(block) not in first and node in block:
            first[id(block)] = block[block.index(node) + 1 :]
    return {later for statements in first.values() for later in statements}


def _list_branches(module: Module) -> set[ast.AST]:
    """The nodes that something right above them runs in some case only."""
    branches: set[ast.AST] = set()
    speaking = module.once(speaks_of_main)
    for kind in (ast.If, ast.IfExp, ast.While):
        for node in module.kinds.get(kind, ()):
            if node.test not in speaking:
                branches.update(child for child in ast.iter_child_nodes(node) if child is not node.test)
    for node in module.kinds.get(ast.Try, ()):
        caught = {getattr(part, "id", "") for each in node.handlers for part in ast.walk(each.type or each)}
        stops = bool(caught & _ENDS_PROGRAM) or any(each.type is None for each in node.handlers)
        branches.update(ast.iter_child_nodes(node) if stops else node.orelse)
    for node in module.kinds.get(ast.BoolOp, ()):
        branches.update(node.values[1:])
    for other in (ast.ExceptHandler, ast.Lambda, ast.match_case):
        for node in module.kinds.get(other, ()):
            branches.update(ast.iter_child_nodes(node))
    return branches


def _list_main_nodes(module: Module) -> set[ast.AST]:
    nodes: set[ast.AST] = set()
    speaking = module.once(speaks_of_main)
    tests = {node for node in module.kinds.get(ast.If, ()) if node.test in speaking}
    for node, above in module.parents.items() if tests else ():
        if above in nodes or (above in tests and isinstance(above, ast.If) and node is not above.test):
            nodes.add(node)
    return nodes

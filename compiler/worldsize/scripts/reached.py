"""Which code of a script runs when it is started, and which surely does.

The text is read, not run: functions and classes are followed by the names that stand in code which runs.
Reading too much only makes a rule silent, so whatever a name can mean is followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from msgspec import field

from worldsize.scripts.bindings import FUNCTIONS, find_scope
from worldsize.scripts.definitions import Definitions, Place
from worldsize.scripts.guards import holds_in_group
from worldsize.scripts.module import Module, last_name, speaks_of_main

_ENDS_PROGRAM = {"SystemExit", "BaseException"}


class Reached(Definitions, eq=False):
    """The definitions, and the functions that the script reaches; a tree is the code outside functions."""

    maybe: set[ast.AST] = field(default_factory=set)
    surely: set[ast.AST] = field(default_factory=set)
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
            _spread(self, self.grouped, lambda module: module.once(_list_conditional, self))
        sure = find_scope(module, node) in self.grouped and not self.is_other_main(module, node)
        return sure and node not in module.once(_list_conditional, self)

    def is_other_main(self, module: Module, node: ast.AST) -> bool:
        """Whether a node stands under ``if __name__ == "__main__":`` of an imported module."""
        return module is not self.modules[0] and node in module.once(_list_main_nodes)


def follow(_entry: Module, modules: tuple[Module, ...]) -> Reached:
    """What is reached from a script, whose ``modules`` begin with it; for :meth:`Module.once`."""
    reached = Reached(modules)
    edges = reached.edges
    for module in modules:
        for name in (*module.kinds.get(ast.Name, ()), *module.kinds.get(ast.Attribute, ())):
            word = last_name(name)
            if word in reached.functions or word in reached.classes or word in module.names:
                above = module.parents.get(name)
                called = isinstance(above, ast.Call) and above.func is name
                for place in reached.find(module, name):
                    edges.setdefault(find_scope(module, name), []).append(((module, name), place[1], called))
    _spread(reached, reached.maybe)
    _spread(reached, reached.surely, lambda module: module.once(_list_conditional))
    return reached


def _spread(
    reached: Reached, into: set[ast.AST], conditional: Callable[[Module], set[ast.AST]] | None = None
) -> None:
    """Add the functions that are reached; without those behind ``conditional`` nodes if these are given."""
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


def _list_conditional(module: Module, code: Definitions | None = None) -> set[ast.AST]:
    """The nodes that do not run each time that their function does."""
    branches = _list_branches(module)
    if code is not None:
        tests = [node for node in module.kinds.get(ast.If, ()) if holds_in_group(code, module, node.test)]
        branches -= {child for node in tests for child in node.body}
    branches |= _list_skipped(module)
    conditional: set[ast.AST] = set()
    for node, above in module.parents.items():
        if node in branches or (above in conditional and not isinstance(above, FUNCTIONS)):
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
    """The nodes that their parent runs only under a condition."""
    branches: set[ast.AST] = set()
    speaking = module.once(speaks_of_main)
    for kind in (ast.If, ast.IfExp, ast.While):
        for node in module.kinds.get(kind, ()):
            if node.test not in speaking:
                branches.update(child for child in ast.iter_child_nodes(node) if child is not node.test)
    for node in module.kinds.get(ast.Try, ()):
        caught = {
            getattr(part, "id", "") for handler in node.handlers for part in ast.walk(handler.type or handler)
        }
        stops = bool(caught & _ENDS_PROGRAM) or any(handler.type is None for handler in node.handlers)
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

"""Follow a value through names, parameters, attributes and the functions of one script."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from worldsize.adopting.source.reading import read_beside
from worldsize.scripts.bindings import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    find_argument,
    find_default,
    find_scope,
    is_parameter,
    read_bindings,
)
from worldsize.scripts.definitions import Definitions, find_class_named, find_stem
from worldsize.scripts.module import Module, keyword_argument, last_name
from worldsize.scripts.reached import follow
from worldsize.scripts.values import find_values, list_calls

_DEPTH = 12
Node = TypeVar("Node", bound=ast.AST)
Bound = tuple[ast.stmt, ast.expr, int | None]
Loop = ast.For | ast.While | ast.ListComp | ast.GeneratorExp


def read_iterable(loop: Loop) -> ast.expr | None:
    """What a loop takes its values from; of a comprehension that of its first `for`."""
    if isinstance(loop, ast.While):
        return None
    return loop.iter if isinstance(loop, ast.For) else loop.generators[0].iter


class Tracer:
    """Finds where values of one script come from. What is not certain is not followed."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.code = Definitions((module,))
        self.classes = {node.name: node for node in self.nodes(ast.ClassDef)}
        self._bindings = read_bindings(self.module)

    @cached_property
    def around(self) -> Definitions:
        """The functions and classes of the script and of the modules beside it."""
        return Definitions(read_beside(self.module).modules)

    def scope(self, node: ast.AST) -> Scope:
        """The function around a node, or the file."""
        return find_scope(self.module, node)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around a node, or the node itself."""
        while not isinstance(node, ast.stmt):
            node = self.module.parents[node]
        return node

    def nodes(self, kind: type[Node]) -> Sequence[Node]:
        """The nodes of a class, in the order of `ast.walk`."""
        return self.module.kinds.get(kind, ())

    def called_name(self, node: ast.AST | None) -> str:
        """The full name of what a call calls; empty for what is not a call."""
        return self.module.name_of(node.func) if isinstance(node, ast.Call) else ""

    def owner(self, call: ast.Call) -> ast.expr | None:
        """What has the method that a call is of, as far as it is followed."""
        return self.value(call.func.value) if isinstance(call.func, ast.Attribute) else None

    def _list_known(self, bound: Iterable[Binding]) -> list[Bound]:
        """The bindings of which the value is known: statement, value, position in it."""
        return [
            (self.statement(binding.target), binding.value, binding.position)
            for binding in bound
            if binding.value is not None
        ]

    def bindings(self, name: str, scope: ast.AST) -> list[Bound]:
        """The assignments of a name in a scope: statement, value, and the position in a tuple."""
        return self._list_known(self._bindings.names.get((scope, name), ()))

    def list_bindings(self, name: ast.Name) -> list[Bound]:
        """The assignments of a name in the innermost scope that binds it."""
        scope = self.scope(name)
        while not (bound := self.bindings(name.id, scope)) and not isinstance(scope, ast.Module):
            if is_parameter(scope, name.id):
                break
            scope = self.scope(scope)
        return bound

    def list_bound(self, scope: ast.AST) -> dict[str, int]:
        """What a scope binds, with the line of the first assignment."""
        bindings = {
            name: self._list_known(bound)
            for (owner, name), bound in self._bindings.names.items()
            if owner is scope
        }
        return {name: bound[0][0].lineno for name, bound in bindings.items() if bound}

    def attributes(self, class_: ast.AST | None) -> dict[str, list[tuple[ast.stmt, ast.expr]]]:
        """The attributes of `self` that the methods of a class assign."""
        attributes: dict[str, list[tuple[ast.stmt, ast.expr]]] = {}
        for name, bound in self._bindings.attributes.items() if isinstance(class_, ast.ClassDef) else ():
            for statement, value, position in self._list_known(bound):
                of_class = self.module.parents.get(self.scope(statement)) is class_
                if of_class and position is None and f"self.{name}" in map(ast.unparse, ast.walk(statement)):
                    attributes.setdefault(name, []).append((statement, value))
        return attributes

    def function(self, call: ast.Call) -> Function | None:
        """The function of the script that a call reaches, also the initializer of a class."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in ("train", "eval") and self.is_model(func.value):
            return None
        candidates = self.code.find(self.module, func)
        return candidates[0][1] if len(candidates) == 1 else None

    def is_model(self, node: ast.expr) -> bool:
        """Whether the script calls what only a module has of an expression: ``model.parameters()``."""
        text = ast.unparse(node)
        return any(
            isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text
            for name in ("parameters", "state_dict", "load_state_dict")
            for _, call in self.module.callers.get(name, ())
        )

    def find_beside(self, call: ast.Call) -> tuple[Module, Function] | None:
        """The function of a module beside the script that a call reaches."""
        home, _, name = self.module.name_of(call.func).rpartition(".")
        stem = home.rpartition(".")[2]
        for module, function in self.around.functions.get(name, ()):
            if module is not self.module and find_stem(module) == stem:
                return module, function
        return None

    def find_class(self, name: str) -> ast.ClassDef | None:
        """The class of a name, of the script or of a module beside it."""
        place = find_class_named(self.around, self.module, ast.Name(name))
        return place[1] if place is not None else None

    def choose(self, function: Function, call: ast.Call) -> None:
        """Follow the parameters of a function to one of its calls only."""
        self.code = Definitions((self.module,), chosen={**self.code.chosen, function: (self.module, call)})

    def reach(self, starts: Iterable[ast.AST], passed: Collection[ast.AST] = ()) -> set[ast.AST]:
        """The functions that run because others do, these among them; what is only ``passed`` does not."""
        edges = self.module.once(follow, (self.module,)).edges
        reached: set[ast.AST] = set()
        waiting = list(starts)
        while waiting:
            scope = waiting.pop()
            if scope not in reached:
                reached.add(scope)
                for (_, name), function, calls in edges.get(scope, ()):
                    if function not in passed or (calls and not self._is_delayed(name)):
                        waiting.append(function)
        return reached

    def _is_delayed(self, node: ast.AST) -> bool:
        """Whether a node stands in a `lambda`, which is only made where it stands."""
        return any(isinstance(above, ast.Lambda) for above, _ in self.module.ancestors(node))

    @cached_property
    def sampling(self) -> set[ast.AST]:
        """The functions that workers of a loader may call: they make samples, and batches of them."""
        return self.reach(self._workers)

    @cached_property
    def sampling_only(self) -> set[ast.AST]:
        """Those of them that nothing else calls."""
        return self.sampling - self.reach([self.module.tree], self._workers)

    @cached_property
    def _workers(self) -> set[ast.AST]:
        """The functions that a loader itself calls in its workers."""
        read = {name for name in ("__getitem__", "__getitems__") if name in self.code.functions}
        methods: set[ast.AST] = {method for name in read for _, method in self.code.functions[name]}
        methods |= {
            method
            for class_ in self.classes.values()
            if any(last_name(base) == "IterableDataset" for base in class_.bases)
            for method in class_.body
            if isinstance(method, FUNCTIONS) and method.name == "__iter__"
        }
        passed = [
            self.value(value)
            for call in self.module.called("DataLoader")
            for name in ("collate_fn", "worker_init_fn")
            if (value := keyword_argument(call, name)) is not None
        ]
        for node in (inner for value in passed for inner in ast.walk(value)):
            class_ = self.classes.get(getattr(node, "id", ""))
            called = class_.body if class_ is not None else [f for _, f in self.code.find(self.module, node)]
            named = {getattr(one, "name", ""): one for one in called}
            methods |= {one for name, one in named.items() if class_ is None or name == "__call__"}
        return methods

    def calls(self, function: Function) -> list[ast.Call]:
        """Where a function is called by its name."""
        if function in self.code.chosen:
            return [self.code.chosen[function][1]]
        calls, _ = list_calls(self.code, self.module, function)
        return [call for _, call in calls if self.function(call) is function]

    def argument(self, call: ast.Call, function: Function, name: str) -> ast.expr | None:
        """What a call passes for a parameter; None where it passes nothing."""
        return find_argument(self.module, call, function, name)

    def value(self, node: ast.expr) -> ast.expr:
        """The expression that a name, attribute, call or entry of a dictionary stands for."""
        for _ in range(_DEPTH):
            value = self.step(node)
            if value is None:
                break
            node = value
        return node

    def step(self, node: ast.expr, besides: ast.expr | None = None) -> ast.expr | None:
        """The same one step back: the first value that is neither ``None`` nor what stands `besides`."""
        for _, value in find_values(self.code, self.module, node):
            is_none = isinstance(value, ast.Constant) and value.value is None
            if isinstance(value, ast.expr) and value not in (node, besides) and not is_none:
                return value
        scope = self.scope(node)
        if isinstance(node, ast.Name) and not isinstance(scope, ast.Module):
            return find_default(scope, node.id)  # a library may call the function
        return None

    def follow_wrapped(self, call: ast.Call) -> ast.expr | None:
        """What a progress bar is laid around, also where it takes its name: ``rows = tqdm(rows)``."""
        inner = self.step(call.args[0], call) if isinstance(call.args[0], ast.Name) else call.args[0]
        return None if inner is None else self.value(inner)

    def returns(self, function: Function) -> list[ast.expr]:
        """What a function returns."""
        return [
            node.value
            for node in self.nodes(ast.Return)
            if node.value is not None and self.scope(node) is function
        ]

    def loops(self, node: ast.AST) -> Iterator[Loop]:
        """The loops around a node inside of its function, from the inside out."""
        for above, child in self.module.ancestors(node):
            source = isinstance(child, ast.comprehension) or child is getattr(above, "iter", None)
            if isinstance(above, Loop) and not source:
                yield above
            if isinstance(above, FUNCTIONS):
                return

    def is_under(self, node: ast.AST, top: ast.AST) -> bool:
        """Whether a node lies in another."""
        return any(above is top for above, _ in self.module.ancestors(node))


def find_initializer(class_: ast.ClassDef, parameter: str | None = None) -> Function | None:
    """``__init__`` of a class; with a parameter of this name, if one is given."""
    starts = (node for node in class_.body if isinstance(node, FUNCTIONS) and node.name == "__init__")
    return next((node for node in starts if parameter is None or is_parameter(node, parameter)), None)


def walk_outside(top: ast.AST, apart: Collection[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a tree, without those of some of its parts."""
    yield top
    for child in ast.iter_child_nodes(top):
        if child not in apart:
            yield from walk_outside(child, apart)

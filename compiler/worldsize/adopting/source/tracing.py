"""Follow a value through names, parameters, attributes and the functions of one script."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from worldsize.scripts.bindings import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    find_argument,
    find_default,
    find_entry,
    find_scope,
    is_parameter,
    read_bindings,
)
from worldsize.scripts.module import Module

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
        self.functions: dict[str, list[Function]] = {}
        for kind in FUNCTIONS:
            for node in self.module.kinds.get(kind, ()):
                self.functions.setdefault(node.name, []).append(node)
        self.classes = {node.name: node for node in self.nodes(ast.ClassDef)}
        self._methods = set(self.functions)
        self._chosen: dict[Function, ast.Call] = {}
        self._bindings = read_bindings(self.module)

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

    def value(self, node: ast.expr) -> ast.expr:
        """The expression that another stands for where it is."""
        return self.follow(node, self.scope(node))[0]

    def called_name(self, node: ast.AST | None) -> str:
        """The full name of what a call calls; empty for what is not a call."""
        return self.module.name_of(node.func) if isinstance(node, ast.Call) else ""

    def owner(self, call: ast.Call) -> ast.expr | None:
        """What has the method that a call is of, as far as it is followed."""
        return self.value(call.func.value) if isinstance(call.func, ast.Attribute) else None

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around a node."""
        return next((up for up, _ in self.module.ancestors(node) if isinstance(up, ast.ClassDef)), None)

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

    def list_bound(self, scope: ast.AST) -> dict[str, int]:
        """What a scope binds, with the line of the first assignment."""
        known = {
            name: self._list_known(bound)
            for (owner, name), bound in self._bindings.names.items()
            if owner is scope
        }
        return {name: bound[0][0].lineno for name, bound in known.items() if bound}

    def attributes(self, class_: ast.AST | None) -> dict[str, list[tuple[ast.stmt, ast.expr]]]:
        """The attributes of `self` that the methods of a class assign."""
        found: dict[str, list[tuple[ast.stmt, ast.expr]]] = {}
        for name, bound in self._bindings.attributes.items() if isinstance(class_, ast.ClassDef) else ():
            for statement, value, position in self._list_known(bound):
                of_class = self.module.parents.get(self.scope(statement)) is class_
                if of_class and position is None and f"self.{name}" in map(ast.unparse, ast.walk(statement)):
                    found.setdefault(name, []).append((statement, value))
        return found

    def function(self, call: ast.Call) -> Function | None:
        """The function of the script that a call reaches, also the initializer of a class."""
        func = call.func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        if isinstance(func, ast.Name) and name in self.classes:
            return find_initializer(self.classes[name])
        if name == "__init__" and isinstance(func, ast.Attribute):
            return self._find_base_initializer(func)
        found = self.functions.get(name, [])
        methods = [each for each in found if isinstance(self.module.parents.get(each), ast.ClassDef)]
        if isinstance(func, ast.Attribute) and name in ("train", "eval") and self._is_model(func.value):
            return None
        chosen = (
            methods if isinstance(func, ast.Attribute) else [each for each in found if each not in methods]
        )
        return chosen[0] if len(chosen) == 1 else None

    def _find_base_initializer(self, func: ast.Attribute) -> Function | None:
        """The function that ``super().__init__(…)`` reaches."""
        around = self.class_around(func)
        called = isinstance(func.value, ast.Call) and getattr(func.value.func, "id", "") == "super"
        for base in around.bases if around is not None and called else ():
            class_ = self.classes.get(getattr(base, "id", ""))
            if class_ is not None and (start := find_initializer(class_)) is not None:
                return start
        return None

    def _is_model(self, node: ast.expr) -> bool:
        """Whether the script calls what only a module has of an expression: ``model.parameters()``."""
        text = ast.unparse(node)
        return any(
            isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text
            for name in ("parameters", "state_dict", "load_state_dict")
            for _, call in self.module.callers.get(name, ())
        )

    def choose(self, function: Function, call: ast.Call) -> None:
        """Follow the parameters of a function to one of its calls only."""
        self._chosen[function] = call

    def calls(self, function: Function) -> list[ast.Call]:
        """Where a function is called by its name."""
        if function in self._chosen:
            return [self._chosen[function]]
        name = function.name
        above = self.module.parents.get(function)
        names = [name]
        if name == "__init__" and isinstance(above, ast.ClassDef):
            names.append(above.name)
        made = (call for each in names for _, call in self.module.callers.get(each, ()))
        return [call for call in made if self.function(call) is function]

    def argument(self, call: ast.Call, function: Function, name: str) -> ast.expr | None:
        """What a call passes for a parameter; None where it passes nothing."""
        return find_argument(self.module, call, function, name)

    def follow(self, node: ast.expr, scope: Scope, depth: int = _DEPTH) -> tuple[ast.expr, Scope]:
        """The expression that a name, attribute or entry of a dictionary stands for, and its scope."""
        if depth == 0:
            return node, scope
        step = self._step(node, scope)
        return (node, scope) if step is None or step[0] is node else self.follow(*step, depth - 1)

    def _step(self, node: ast.expr, scope: Scope) -> tuple[ast.expr, Scope] | None:
        if isinstance(node, ast.Name):
            return self._step_name(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self._step_attribute(node, scope)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if (given := self.step_keyword(node, scope)) is not None:
                return given
            inside, where = self.follow(node.value, scope, 4)
            found = find_entry(inside, node.slice.value)
            return None if found is None else (found, where)
        if isinstance(node, ast.Call):
            return self._step_call(node)
        return None

    def step_keyword(self, node: ast.Subscript, scope: Scope) -> tuple[ast.expr, Scope] | None:
        """What a call passes for ``kwargs["model"]`` of a function that takes ``**kwargs``."""
        taken = scope.args.kwarg if isinstance(scope, ast.FunctionDef) else None
        if isinstance(scope, ast.Module) or taken is None or getattr(node.value, "id", "") != taken.arg:
            return None
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        passed = (
            (word.value, call) for call in self.calls(scope) for word in call.keywords if word.arg == key
        )
        value, call = next(passed, (None, None)) if isinstance(key, str) else (None, None)
        return (value, self.scope(call)) if value is not None and call is not None else None

    def follow_wrapped(self, call: ast.Call, scope: Scope) -> tuple[ast.expr, Scope] | None:
        """What a progress bar is laid around, also where it takes its name: ``rows = tqdm(rows)``."""
        inner = call.args[0]
        if not isinstance(inner, ast.Name):
            return self.follow(inner, scope)
        step = self._step_name(inner.id, scope, call)
        return None if step is None else self.follow(*step)

    def _step_name(
        self, name: str, scope: Scope, besides: ast.expr | None = None
    ) -> tuple[ast.expr, Scope] | None:
        bound = [binding for binding in self.bindings(name, scope) if binding[1] is not besides]
        if not bound and is_parameter(scope, name):
            assert not isinstance(scope, ast.Module)
            calls = self.calls(scope)
            passed = [value for call in calls if (value := self.argument(call, scope, name)) is not None]
            if passed:
                return passed[0], self.scope(passed[0])
            default = find_default(scope, name)
            return None if default is None else (default, scope)
        if not bound and scope is not self.module.tree:
            outer = self.scope(scope)
            return self._step_name(name, outer)
        return self._choose(bound)

    def _step_attribute(self, node: ast.Attribute, scope: Scope) -> tuple[ast.expr, Scope] | None:
        bound = self._list_known(self._bindings.attributes.get(node.attr, ()))
        if isinstance(node.value, ast.Attribute) and node.value.attr == "hparams":  # of Lightning
            return self._step_hparam(node.attr, scope)
        if bound:
            return self._choose(bound)
        base = node.value
        for name, class_ in self.classes.items():
            instance = isinstance(base, ast.Name) and self._is_instance(base, scope, name)
            known = self.bindings(node.attr, class_)
            if known and (instance or (isinstance(base, ast.Name) and base.id in (name, "self"))):
                return self._choose(known)
        settings = [known for class_ in self.classes.values() if (known := self.bindings(node.attr, class_))]
        return self._choose(settings[0]) if len(settings) == 1 and node.attr not in self._methods else None

    def _step_hparam(self, name: str, scope: Scope) -> tuple[ast.expr, Scope] | None:
        class_ = self.module.parents.get(scope)
        start = find_initializer(class_, name) if isinstance(class_, ast.ClassDef) else None
        return self._step_name(name, start) if start is not None else None

    def _is_instance(self, base: ast.Name, scope: Scope, name: str) -> bool:
        value, _ = self.follow(base, scope, 4)
        return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == name

    def _choose(self, bound: list[Bound]) -> tuple[ast.expr, Scope] | None:
        """The value of the first assignment that is not of the form ``model = model.to(device)``."""
        for statement, value, position in bound:
            if isinstance(value, ast.Constant) and value.value is None:
                continue
            scope = self.scope(statement)
            if position is None:
                return value, scope
            return self._returned(value, position) if isinstance(value, ast.Call) else None
        return None

    def _step_call(self, call: ast.Call) -> tuple[ast.expr, Scope] | None:
        function = self.function(call)
        if function is None or function.name == "__init__":
            return None
        values = self.returns(function)
        return (values[0], function) if len(values) == 1 else None

    def _returned(self, call: ast.Call, position: int) -> tuple[ast.expr, Scope] | None:
        function = self.function(call)
        for value in self.returns(function) if function is not None else ():
            if isinstance(value, ast.Tuple) and position < len(value.elts):
                assert function is not None
                return value.elts[position], function
        return None

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
    functions = (each for each in class_.body if isinstance(each, FUNCTIONS) and each.name == "__init__")
    return next((each for each in functions if parameter is None or is_parameter(each, parameter)), None)


def walk_outside(top: ast.AST, apart: Collection[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a tree, without those of some of its parts."""
    yield top
    for child in ast.iter_child_nodes(top):
        if child not in apart:
            yield from walk_outside(child, apart)

"""The functions and classes of a script and of the modules beside it, and what a name may mean of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, field

from worldsize.scripts.bindings import FUNCTIONS, Function
from worldsize.scripts.module import Module, last_name, recall

Place: TypeAlias = tuple[Module, ast.AST]  # a node, with the module that has it
Call: TypeAlias = tuple[Module, ast.Call]
ClassPlace: TypeAlias = tuple[Module, ast.ClassDef]
T = TypeVar("T")
_MOST = 30  # functions of one name that are followed


class Definitions(Struct, eq=False):
    """The functions and classes by name."""

    modules: tuple[Module, ...]  # the script first
    functions: dict[str, list[tuple[Module, Function]]] = field(default_factory=dict)
    classes: dict[str, list[ClassPlace]] = field(default_factory=dict)
    chosen: dict[Function, Call] = field(default_factory=dict)  # the only call of a function to follow
    memo: dict[object, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for module in self.modules:
            for kind in FUNCTIONS:
                for node in module.kinds.get(kind, ()):
                    self.functions.setdefault(node.name, []).append((module, node))
            for node in module.kinds.get(ast.ClassDef, ()):
                self.classes.setdefault(node.name, []).append((module, node))

    def once(self, work: Callable[..., T], *arguments: object) -> T:
        """The result of a function for these modules, calculated once."""
        return recall(self.memo, work, self, *arguments)

    def called(self, *endings: str) -> list[Call]:
        """The calls of these names in all modules; see :meth:`Module.called`."""
        return [(module, call) for module in self.modules for call in module.called(*endings)]

    def find(self, module: Module, name: ast.AST) -> list[tuple[Module, Function]]:
        """The functions that a name or attribute may mean; for a class, those that construct it."""
        if isinstance(name, ast.Name):
            return self.once(_find_named, module, name.id)
        if isinstance(name, ast.Attribute):
            if last_name(name.value) == "super" and name.attr == "__init__":
                return find_methods(self, find_class_around(module, name), name.attr, above=True)
            owner = module.names.get(name.value.id) if isinstance(name.value, ast.Name) else None
            return self.once(_find_method, owner, name.attr)
        return []


def define(_entry: Module, modules: tuple[Module, ...]) -> Definitions:
    """The definitions of a script, whose ``modules`` begin with it; for :meth:`Module.once`."""
    return Definitions(modules)


def define_alone(module: Module) -> Definitions:
    """The definitions of one file without those of the files beside it."""
    return module.once(define, (module,))


def _find_named(code: Definitions, module: Module, name: str) -> list[tuple[Module, Function]]:
    imported = module.names.get(name)
    real = name if imported is None else imported.rpartition(".")[2]
    functions = [
        pair
        for pair in code.functions.get(real, ())
        if (pair[0] is module) == (imported is None) and find_class(*pair) is None
    ]
    makers = [
        (other, method)
        for other, class_ in code.classes.get(real, ())
        for method in class_.body
        if isinstance(method, FUNCTIONS) and method.name in ("__init__", "__post_init__", "__new__")
    ]
    return (functions + makers)[:_MOST]


def _find_method(code: Definitions, owner: str | None, name: str) -> list[tuple[Module, Function]]:
    methods = code.functions.get(name, [])
    if owner is None:
        return [method for method in methods if find_class(*method) is not None][:_MOST]
    last = owner.rpartition(".")[2]
    if last in code.classes:
        return [method for method in methods if getattr(find_class(*method), "name", None) == last][:_MOST]
    return [method for method in methods if find_class(*method) is None and find_stem(method[0]) == last][
        :_MOST
    ]


def find_methods(
    code: Definitions, class_: ast.ClassDef | None, name: str, *, above: bool = False
) -> list[tuple[Module, Function]]:
    """The method of a class, or else of its bases that the script has; of ``super()`` only of these."""
    bases = {last_name(base) for base in class_.bases} if class_ is not None else set()
    methods = [(pair, find_class(*pair)) for pair in code.functions.get(name, ())]
    of_class = [pair for pair, holder in methods if holder is class_ is not None and not above]
    return of_class or [pair for pair, holder in methods if holder is not None and holder.name in bases]


def find_class_around(module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The innermost class around a node."""
    return next((above for above, _ in module.ancestors(node) if isinstance(above, ast.ClassDef)), None)


def find_class(module: Module, function: Function) -> ast.ClassDef | None:
    """The class that a method stands in."""
    above = module.parents.get(function)
    return above if isinstance(above, ast.ClassDef) else None


def find_class_named(code: Definitions, module: Module, node: ast.AST | None) -> ClassPlace | None:
    """The class that a name means: of the module that it is imported from, else the only one of its name."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    home, _, name = module.name_of(node).rpartition(".")
    classes = code.classes.get(name, [])
    stem = home.rpartition(".")[2]
    near = [place for place in classes if (find_stem(place[0]) == stem if stem else place[0] is module)]
    chosen = near or classes
    return chosen[0] if len(chosen) == 1 else None


def find_stem(module: Module) -> str:
    """The name by which a module beside it imports a file."""
    path = PurePath(module.source.path)
    return path.parent.name if path.stem == "__init__" else path.stem

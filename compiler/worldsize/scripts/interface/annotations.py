"""What a type annotation allows a command to give: the type of the words, their choices and their number."""

from __future__ import annotations

import ast

from msgspec import Struct

from worldsize.scripts.definitions import find_class_named
from worldsize.scripts.interface.model import Option
from worldsize.scripts.module import Module, constant_value
from worldsize.scripts.reached import Reached
from worldsize.scripts.values import evaluate

_NUMBERS: dict[str, type[int | float]] = {"int": int, "float": float}
_LISTS = frozenset({"list", "List", "Sequence", "Iterable", "set", "Set"})
_ENUMS = frozenset({"Enum", "StrEnum", "IntEnum"})


class Annotation(Struct):
    """What is known about the values."""

    kind: type[int | float] | None = None
    choices: tuple[object, ...] | None = None
    boolean: bool = False
    optional: bool = False  # may be None
    many: bool = False
    extras: tuple[ast.expr, ...] = ()  # what stands beside the type in `Annotated[…]`

    def describe(self, option: Option) -> None:
        """Give an option the type and the choices of its values."""
        option.kind, option.choices = self.kind, self.choices


def read_annotation(reached: Reached, module: Module, node: ast.AST | None, depth: int = 6) -> Annotation:
    """The meaning of an annotation."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and depth:
        try:
            return read_annotation(reached, module, ast.parse(node.value, mode="eval").body, depth - 1)
        except (SyntaxError, ValueError):
            return Annotation()
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and depth:
        return _read_union(reached, module, [node.left, node.right], depth)
    if isinstance(node, ast.Subscript) and depth:
        return _read_subscript(reached, module, node, depth)
    name = module.name_of(node).rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""
    class_ = find_class_named(reached, module, node)
    if class_ is not None:
        return Annotation(choices=_list_members(*class_))
    return Annotation(_NUMBERS.get(name), boolean=name == "bool", many=name in _LISTS)


def _read_subscript(reached: Reached, module: Module, node: ast.Subscript, depth: int) -> Annotation:
    name = module.name_of(node.value).rpartition(".")[2]
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        values = tuple(evaluate(reached, module, part) for part in parts)
        return Annotation(choices=None if None in values else values)
    if name in ("Optional", "Union"):
        inner = _read_union(reached, module, parts, depth)
        inner.optional |= name == "Optional"
        return inner
    if name != "Annotated" and name not in _LISTS:
        return Annotation()
    inner = read_annotation(reached, module, parts[0], depth - 1)
    if name == "Annotated":
        inner.extras = tuple(parts[1:])
    else:
        inner.many = True
    return inner


def _read_union(reached: Reached, module: Module, parts: list[ast.expr], depth: int) -> Annotation:
    types = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is None)]
    inner = read_annotation(reached, module, types[0], depth - 1) if len(types) == 1 else Annotation()
    inner.optional |= len(types) < len(parts)
    return inner


def _list_members(module: Module, node: ast.ClassDef) -> tuple[object, ...] | None:
    """The values of an enumeration; None for any other class, or if not all are known."""
    if not _ENUMS & {module.name_of(base).rpartition(".")[2] for base in node.bases}:
        return None
    values = [
        constant_value(statement.value)
        for statement in node.body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    ]
    return tuple(map(str, values)) if values and None not in values else None

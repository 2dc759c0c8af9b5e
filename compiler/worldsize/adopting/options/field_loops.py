"""The fields of a dataclass, and options that a loop over them declares."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from worldsize.scripts.module import Module, constant_value, keyword_argument

_OF_CLASS = ("fields", "get_type_hints", "asdict", "vars")
_MAPPINGS = ("__dataclass_fields__", "__annotations__", "__dict__")


class Field(Struct, frozen=True):
    """A field of a dataclass, with its default as it is written."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    required: bool
    node: ast.AST


def list_fields(module: Module, class_: ast.ClassDef) -> Iterator[Field]:
    """The fields of a class, those of its base classes first."""
    classes = {each.name: each for each in module.kinds.get(ast.ClassDef, ())}
    for base in class_.bases:
        above = classes.get(getattr(base, "id", ""))
        if above is not None and above is not class_:
            yield from list_fields(module, above)
    for each in class_.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            given = each.value
            if isinstance(given, ast.Call) and not given.args:  # `field(default=64)`
                given = keyword_argument(given, "default")
            yield Field(each.target.id, each.annotation, given, each.value is None, each)


def list_looped(module: Module, call: ast.Call) -> Iterator[tuple[str, Field]]:
    """The options that an `add_argument` declares in a loop over the fields of a dataclass."""
    for above, _ in module.ancestors(call):
        if isinstance(above, ast.FunctionDef):
            return
        class_ = _find_class(module, above.iter) if isinstance(above, ast.For) else None
        if class_ is None or not isinstance(above, ast.For):
            continue
        target = above.target.elts[0] if isinstance(above.target, ast.Tuple) else above.target
        names = (ast.unparse(target), f"{ast.unparse(target)}.name")
        for field in list_fields(module, class_):
            known = dict.fromkeys(names, field.name)
            words = [_spell(each, known) for each in call.args]
            option = next((word for word in words if word and word.startswith("--")), None)
            if option is not None:
                yield option, field
        return


def choose_default(call: ast.Call, field: Field) -> ast.expr | None:
    """The default of an option of a loop: that of the field, unless it is written out."""
    given = keyword_argument(call, "default")
    return given if given is None or isinstance(given, ast.Constant) else field.default


def _find_class(module: Module, iterable: ast.expr) -> ast.ClassDef | None:
    """The class whose fields ``fields(Settings)`` or ``Settings.__dataclass_fields__.items()`` gives."""
    classes = {each.name: each for each in module.kinds.get(ast.ClassDef, ())}
    node: ast.expr = iterable
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("items", "values", "keys"):
        assert isinstance(node.func, ast.Attribute)
        node = node.func.value
    if isinstance(node, ast.Attribute) and node.attr in _MAPPINGS:
        node = node.value
    elif (
        isinstance(node, ast.Call) and node.args and module.name_of(node.func).rpartition(".")[2] in _OF_CLASS
    ):
        node = node.args[0]
    else:
        return None
    node = node.func if isinstance(node, ast.Call) else node  # `Settings()`
    return classes.get(getattr(node, "id", ""))


def _spell(node: ast.expr, known: dict[str, str]) -> str | None:
    """The text of a word such as ``f"--{name}"`` or ``"--" + field.name.replace("_", "-")``."""
    if (name := known.get(ast.unparse(node))) is not None:
        return name
    if isinstance(node, ast.FormattedValue):
        return _spell(node.value, known)
    parts: list[ast.expr] = []
    if isinstance(node, ast.JoinedStr):
        parts = node.values
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    if parts:
        texts = [text for each in parts if (text := _spell(each, known)) is not None]
        return "".join(texts) if len(texts) == len(parts) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
        base, given = _spell(node.func.value, known), [constant_value(each) for each in node.args]
        old, new = given if len(given) == 2 else (None, None)
        return base.replace(old, new) if base and isinstance(old, str) and isinstance(new, str) else None
    value = constant_value(node)
    return value if isinstance(value, str) else None

"""Reads a YAML tree that passed the schema as a class of the model, whose fields are its keys.

A key is the name of a field or what ``field(name=…)`` gives: ``limits.timeout`` leads into a mapping, and the
empty name stands for the mapping itself. The annotation tells how to read the value. It stays text, because
evaluating all annotations takes longer than reading a spec.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from worldsize.documents.yaml.nodes import Mapping, Node, Scalar
from worldsize.spec.model import Located
from worldsize.spec.values import to_plain

T = TypeVar("T", bound=Struct)
_Read = Callable[[Node, "Scalar | None"], Any]  # a value and its key

_ANNOTATION = re.compile(r"(Mapping\[str, )?(Located\[)?(\w+)")
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float}  # a whole number may be `4.0`
_PLACES: dict[str, _Read] = {
    "str": lambda _, key: key.text if key is not None else "",
    "Span": lambda node, key: (node if key is None else key).span,
    "MappingNode": lambda node, _: node,
}


def decode(model: type[T], node: Node, key: Scalar | None = None, **facts: object) -> T:
    """Read a value, with its key, as a class of the model. Nothing is checked again.

    A class with a short form names in ``SHORT`` the key that a value stands for which is not a mapping.
    ``facts`` are the fields that are not in the file.
    """
    if key is not None and not isinstance(node, Mapping):
        short = Scalar(key.source, key.start, key.end, getattr(model, "SHORT", key.text), "")
        node = Mapping(node.source, node.start, node.end, [(short, node)])
    fields = _list_fields(model, tuple(facts))
    return model(**{field.name: _read_field(field, node, key) for field in fields}, **facts)


class _Field(NamedTuple):
    name: str
    path: tuple[str, ...]  # of its value in the mapping
    read: _Read
    several: bool


@cache
def _list_fields(model: type[Struct], facts: tuple[str, ...]) -> list[_Field]:
    keys = zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True)
    return [_describe_field(model, name, key) for name, key in keys if name not in facts]


def _describe_field(model: type[Struct], name: str, key: str) -> _Field:
    match = _ANNOTATION.match(model.__annotations__[name])
    assert match is not None
    several, located, word = match.groups()
    if not located and word in _PLACES:
        return _Field(name, (), _PLACES[word], several=False)
    read: _Read = partial(_locate, _CONVERSIONS.get(word))
    if not located:
        read = partial(decode, getattr(sys.modules[model.__module__], word))
    path = tuple(key.split(".")) if key else ()
    return _Field(name, path, partial(_read_entries, read) if several else read, bool(several))


def _read_field(field: _Field, node: Node | None, key: Scalar | None) -> Any:
    for part in field.path:
        node, key = (node.get(part), node.key(part)) if isinstance(node, Mapping) else (None, None)
    if node is None:
        return {} if field.several else None
    return field.read(node, key)


def _read_entries(read: _Read, node: Node, _: Scalar | None) -> dict[str, Any]:
    return {key.text: read(value, key) for key, value in node.items()} if isinstance(node, Mapping) else {}


def _locate(convert: Callable[[Any], Any] | None, node: Node, key: Scalar | None) -> Located[Any]:
    value = to_plain(node)
    span = node.span
    return Located(convert(value) if convert else value, span, span if key is None else key.span, node)

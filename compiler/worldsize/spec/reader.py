"""Reading one mapping of a valid tree: typed values by key, each with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from worldsize.base.span import Span
from worldsize.spec.model import Located
from worldsize.spec.values import to_plain
from worldsize.yaml.nodes import Mapping, Scalar

T = TypeVar("T")


def text(mapping: Mapping, key: str) -> Located[str] | None:
    """The text under a key."""
    return _read(mapping, key, str)


def choice(mapping: Mapping, key: str) -> Located[Any] | None:
    """A word of an enumeration, whose type the schema has already narrowed."""
    return _read(mapping, key, _same)


def whole(mapping: Mapping, key: str) -> Located[int] | None:
    """A whole number; JSON Schema counts 4.0 among them."""
    return _read(mapping, key, int)


def number(mapping: Mapping, key: str) -> Located[float] | None:
    """A number, as float."""
    return _read(mapping, key, float)


def anything(mapping: Mapping, key: str) -> Located[Any] | None:
    """A value of any shape, as plain Python."""
    return _read(mapping, key, _same)


def entries(mapping: Mapping, key: str) -> dict[str, Located[Any]]:
    """The entries of the mapping under a key, empty where there is none."""
    inner = mapping.get(key)
    if not isinstance(inner, Mapping):
        return {}
    return {name.text: Located(to_plain(node), node.span, name.span, node) for name, node in inner.items()}


def section(mapping: Mapping, key: str) -> tuple[Mapping, Span] | None:
    """The mapping under a key and the span of that key."""
    inner, name = mapping.get(key), mapping.key(key)
    return (inner, name.span) if isinstance(inner, Mapping) and name is not None else None


def sections(mapping: Mapping, key: str) -> dict[str, tuple[Mapping, Scalar]]:
    """The mappings inside the mapping under a key, each with the node of its name."""
    inner = mapping.get(key)
    if not isinstance(inner, Mapping):
        return {}
    return {name.text: (node, name) for name, node in inner.items() if isinstance(node, Mapping)}


def require(located: Located[T] | None) -> Located[T]:
    """A value whose presence the schema has already established."""
    assert located is not None
    return located


def _read(mapping: Mapping, key: str, convert: Callable[[Any], T]) -> Located[T] | None:
    node, name = mapping.get(key), mapping.key(key)
    if node is None or name is None:
        return None
    return Located(convert(to_plain(node)), node.span, name.span, node)


def _same(value: Any) -> Any:
    return value

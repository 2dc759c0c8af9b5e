"""What an unquoted word means by YAML 1.1, the way PyYAML's SafeLoader (and so Azure ML) reads it.

The tables of patterns and the conversions are PyYAML's own. Words that these fail on, such as ``2024-13-45``,
stay text, and :func:`explain_unreadable` says why.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from worldsize.base.wording import shorten

PlainValue = None | bool | int | float | str | bytes | dt.date | dt.datetime

_PREFIX = "tag:yaml.org,2002:"
_PATTERNS: dict[str, list[tuple[str, Any]]] = {
    first: [(tag.removeprefix(_PREFIX), pattern) for tag, pattern in rules]
    for first, rules in Resolver.yaml_implicit_resolvers.items()
}
_CONSTRUCTOR = SafeConstructor()
_CONVERTED = frozenset({"int", "float", "bool", "null", "timestamp", "binary"})
_FAILURES = (ValueError, OverflowError, KeyError, IndexError, AttributeError, ConstructorError)
# Python refuses to read longer decimal numbers, and sexagesimal ones cost the square of their length.
_LONGEST_NUMBER = 4300
KNOWN_TAGS = frozenset({"null", "bool", "int", "float", "str", "binary", "timestamp", "value", "merge"})


def classify_scalar(text: str, style: str = "", tag: str | None = None) -> str:
    """The short YAML tag of a scalar: ``str``, ``int``, ``float``, ``bool``, ``null`` and so on.

    Args:
        text: The content after unquoting and folding.
        style: The node's style; anything but plain is text.
        tag: An explicit tag as written (``!!int``) or long, or None.
    """
    if tag is not None and tag != "!":
        return tag.removeprefix(_PREFIX).removeprefix("!!")
    if style and tag is None:
        return "str"
    for name, pattern in _PATTERNS.get(text[:1], ()):
        if pattern.match(text):
            return name
    return "str"


def resolve_scalar(text: str, style: str = "", tag: str | None = None) -> PlainValue:
    """The Python value of a scalar; a word that looks like a number or date but is not one stays text."""
    name = classify_scalar(text, style, tag)
    if name == "str":
        return text
    try:
        return _convert(name, text)
    except _FAILURES:
        return text


def explain_unreadable(
    text: str, style: str = "", tag: str | None = None, *, is_key: bool = False
) -> str | None:
    """Why PyYAML fails on this scalar, or None if it does not. ``=`` and ``<<`` are allowed as keys."""
    name = classify_scalar(text, style, tag)
    if name == "str":
        return None
    if name not in KNOWN_TAGS:
        return f"tag `{tag}` is unknown to Azure ML"
    if name in ("value", "merge") and not is_key:
        return f"a bare `{text}` is not a value"
    try:
        _convert(name, text)
    except _FAILURES:
        shown = shorten(text, 40)
        noun = {"timestamp": "date", "int": "whole number", "float": "number"}.get(name, name)
        return f"`{shown}` is read as a {noun} but is not a valid one"
    return None


def _convert(name: str, text: str) -> PlainValue:
    if name not in _CONVERTED:
        return text
    if name in ("int", "float") and len(text) > _LONGEST_NUMBER:
        raise ValueError(text[:20])
    tag = f"{_PREFIX}{name}"
    value: PlainValue = SafeConstructor.yaml_constructors[tag](_CONSTRUCTOR, ScalarNode(tag, text))
    return value

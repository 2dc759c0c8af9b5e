"""Judges plain values by a JSON Schema: which keyword of it each value violates, in the schema's order.

It knows the keywords that our own schemas have. Numbers are finite, as JSON has no others. Words, positions
and what one cause says of several keywords are for whoever reads the violations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

Shape = Mapping[str, Any]
Path = tuple[str | int, ...]
_Judge = Callable[[Any, Shape], bool]  # whether a value has a shape
_TYPES: dict[str, type] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int,  # and what `has_type` says of floats
    "boolean": bool,
    "null": type(None),
}


class Violation(Struct, frozen=True):
    """One keyword of the schema that one value violates."""

    path: Path  # of the value
    keyword: str  # "type", "enum", "required" …
    argument: Any  # the schema's value for the keyword
    subschema: Shape  # the part of the schema that contains the keyword
    instance: Any  # the value
    about_name: bool  # the value is a key of the mapping at `path`


def find_violations(value: Any, shape: Shape, definitions: Shape) -> Iterator[Violation]:
    """Find the violations of a shape; ``definitions`` has what a ``$ref`` refers to, by its last part."""
    return _judge(value, shape, definitions, (), about_name=False)


def refer(reference: str, definitions: Shape) -> Any:
    """What a ``$ref`` refers to."""
    return definitions[reference.rpartition("/")[2]]


def inline_references(part: Any, definitions: Shape) -> Any:
    """Replace each ``$ref`` by what it refers to. No definition may refer to itself."""
    if isinstance(part, list):
        return [inline_references(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    whole = {**(refer(reference, definitions) if reference else {}), **part}
    return {
        key: inline_references(value, definitions)
        for key, value in whole.items()
        if key not in ("$ref", "$defs")
    }


def has_type(value: object, name: str) -> bool:
    """Whether a value has a type of JSON Schema."""
    if name in ("integer", "number") and isinstance(value, float):
        return math.isfinite(value) and (name == "number" or value.is_integer())
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Let ``$`` match only at the end, as in ECMA 262; Python's also matches before a final newline."""
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def _judge(
    value: Any, shape: Shape, definitions: Shape, path: Path, *, about_name: bool
) -> Iterator[Violation]:
    def fits(inner: Any, inner_shape: Shape) -> bool:
        return next(_judge(inner, inner_shape, definitions, (), about_name=False), None) is None

    for keyword, argument in shape.items():
        if keyword == "$ref":
            yield from _judge(value, refer(argument, definitions), definitions, path, about_name=about_name)
        elif keyword in _PARTS:
            kind, list_parts = _PARTS[keyword]
            for inner, part, step in list_parts(value, argument, shape) if has_type(value, kind) else ():
                named = about_name or keyword == "propertyNames"
                yield from _judge(inner, part, definitions, (*path, *step), about_name=named)
        elif keyword == "if" and fits(value, argument):
            yield from _judge(value, shape.get("then", {}), definitions, path, about_name=about_name)
        for _ in range(_count_faults(value, keyword, argument, shape, fits)):
            yield Violation(path, keyword, argument, shape, value, about_name)


def _count_faults(value: Any, keyword: str, argument: Any, shape: Shape, fits: _Judge) -> int:
    """How often a value violates a keyword by itself, apart from its parts."""
    if keyword in _OF_ANY:
        return not _OF_ANY[keyword](value, argument, fits)
    if keyword in _OF_TYPE:
        kind, keeps = _OF_TYPE[keyword]
        return has_type(value, kind) and not keeps(value, argument)
    if keyword in _OF_KEYS and isinstance(value, dict):
        return _OF_KEYS[keyword](value, argument, shape)
    return 0


def _list_others(value: dict[str, Any], shape: Shape) -> list[str]:
    """The keys that `properties` does not name, in their order."""
    named = shape.get("properties", {})
    return [key for key in value if key not in named]


_Parts = Callable[[Any, Any, Shape], Iterable[tuple[Any, Shape, Path]]]  # a value, its shape and its key
_PARTS: dict[str, tuple[str, _Parts]] = {
    "items": ("array", lambda value, argument, _: ((item, argument, (at,)) for at, item in enumerate(value))),
    "propertyNames": ("object", lambda value, argument, _: ((key, argument, ()) for key in value)),
    "properties": (
        "object",
        lambda value, argument, _: (
            (value[key], part, (key,)) for key, part in argument.items() if key in value
        ),
    ),
    "additionalProperties": (
        "object",
        lambda value, argument, shape: (
            (value[key], argument, (key,))
            for key in (_list_others(value, shape) if isinstance(argument, dict) else ())
        ),
    ),
}
_OF_ANY: dict[str, Callable[[Any, Any, _Judge], bool]] = {
    "type": lambda value, argument, _: any(
        has_type(value, name) for name in ([argument] if isinstance(argument, str) else argument)
    ),
    "enum": lambda value, argument, _: any(
        word == value and isinstance(word, bool) == isinstance(value, bool) for word in argument
    ),
    "anyOf": lambda value, argument, fits: any(fits(value, part) for part in argument),
    "not": lambda value, argument, fits: not fits(value, argument),
}
_OF_TYPE: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minLength": ("string", lambda value, argument: len(value) >= argument),
    "maxLength": ("string", lambda value, argument: len(value) <= argument),
    "pattern": ("string", lambda value, argument: compile_pattern(argument).search(value) is not None),
    "minimum": ("number", lambda value, argument: value >= argument),
    "maximum": ("number", lambda value, argument: value <= argument),
    "exclusiveMinimum": ("number", lambda value, argument: value > argument),
    "exclusiveMaximum": ("number", lambda value, argument: value < argument),
    "minItems": ("array", lambda value, argument: len(value) >= argument),
    "minProperties": ("object", lambda value, argument: len(value) >= argument),
    "maxProperties": ("object", lambda value, argument: len(value) <= argument),
}
_OF_KEYS: dict[str, Callable[[dict[str, Any], Any, Shape], int]] = {
    "required": lambda value, argument, _: sum(key not in value for key in argument),
    "dependentRequired": lambda value, argument, _: sum(
        other not in value for key, others in argument.items() if key in value for other in others
    ),
    "additionalProperties": lambda value, argument, shape: (
        argument is False and bool(_list_others(value, shape))
    ),
}

"""JSON Schemas: where their references lead, and which keyword a plain value violates, in the schema's order.

It knows the keywords of our own schemas and of Azure ML's. Numbers are finite, as JSON has no others. Words,
positions and the one cause behind several keywords are for those who read the violations.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from worldsize.base import resources
from worldsize.base.patterns import compile_later

Shape = Mapping[str, Any]
Path = tuple[str | int, ...]
_Judge = Callable[[Any, Shape], bool]  # whether a value has a shape
_TYPES: dict[str, type] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int,  # and floats, by `has_type`
    "boolean": bool,
    "null": type(None),
}

# JSON Schema's types in words.
TYPE_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}


class Violation(Struct, frozen=True):
    """One keyword of the schema that one value violates."""

    path: Path  # of the value
    keyword: str  # "type", "enum", "required" …
    argument: Any  # the schema's value for the keyword
    subschema: Shape  # the part of the schema that contains the keyword
    instance: Any  # the value
    about_name: bool  # the value is a key of the mapping at `path`
    schema: Schema


class Schema:
    """The shape of a kind of document, and what its references lead to."""

    def __init__(self, root: Shape, find_definition: Callable[[str], Shape]) -> None:
        self.root = root
        self._find_definition = find_definition  # by the last part of a reference
        self._alternatives: dict[int, list[Shape]] = {}

    def resolve(self, shape: Shape) -> Shape:
        """A shape, or what its ``$ref`` stands for."""
        while "$ref" in shape:
            shape = self._find_definition(shape["$ref"].rpartition("/")[2])
        return shape

    def complete(self, shape: Shape) -> Shape:
        """A shape with what its ``$ref`` stands for; the words beside the reference win."""
        return {**self.resolve(shape), **shape}

    def list_properties(self, shape: Shape) -> dict[str, Shape]:
        """The keys of a mapping and their complete shapes."""
        return {key: self.complete(part) for key, part in shape.get("properties", {}).items()}

    def list_alternatives(self, shape: Shape) -> list[Shape]:
        """The resolved alternatives of a shape; a value must fit one of them."""
        parts = self._alternatives.get(id(shape))
        if parts is None:
            whole = self.resolve(shape)
            parts = [self.resolve(part) for part in whole.get("anyOf", [whole])]
            self._alternatives[id(shape)] = parts
        return parts

    def list_mappings(self, shape: Shape) -> list[Shape]:
        """The mappings among the alternatives of a shape, unions of mappings taken apart."""
        mappings = []
        for part in self.list_alternatives(shape):
            if "oneOf" in part:
                mappings += [leaf for branch in part["oneOf"] for leaf in self.list_mappings(branch)]
            elif part.get("type") == "object":
                mappings.append(part)
        return mappings

    def find_violations(self, value: Any) -> Iterator[Violation]:
        """Find the violations of the whole schema."""
        return _judge(value, self.root, self, (), about_name=False)


def read_schema(name: str) -> str:
    """The text of a published schema."""
    return (resources.schemas() / f"{name}.schema.json").read_text(encoding="utf-8")


@cache
def _parse_schema(name: str) -> Shape:
    shape: Shape = json.loads(read_schema(name))
    return shape


@cache
def load_schema(name: str, *others: str) -> Schema:
    """A published schema. The others have definitions that it lacks, and are read when one is needed."""

    def find_definition(word: str) -> Shape:
        tables = (_parse_schema(file).get("$defs", {}) for file in (name, *others))
        shape: Shape = next(table[word] for table in tables if word in table)
        return shape

    return Schema(_parse_schema(name), find_definition)


def fits_shape(value: Any, shape: Shape) -> bool:
    """Whether a scalar has a shape without references."""
    for keyword, argument in shape.items():
        if keyword in _KEYWORDS and _count_faults(value, keyword, argument, shape, fits_shape):
            return False
    return True


def has_type(value: object, name: str) -> bool:
    """Whether a value has a type of JSON Schema."""
    if name in ("integer", "number") and isinstance(value, float):
        return math.isfinite(value) and (name == "number" or value.is_integer())
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def fold_case(word: str, case: str) -> str:
    """A word as it is compared where case is exact, ignored, or turned from camel to snake."""
    if case == "snake":
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word).lower()
    return word.lower() if case == "ignore" else word


_DATE_TIME = compile_later(
    r"(\d{4})-(\d{1,2})-(\d{1,2})[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d{1,12})?)?"
    r"(Z|[+-]\d{2}(?::?\d{2})?)?"
)


def is_date_time(text: str) -> bool:
    """Whether a text is an ISO 8601 date with a time that exists."""
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return False
    try:
        dt.datetime(*(int(part or 0) for part in match.groups()[:6]))  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Let ``$`` match only at the end, as in ECMA 262; Python's also matches before a final newline."""
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def _judge(value: Any, shape: Shape, schema: Schema, path: Path, *, about_name: bool) -> Iterator[Violation]:
    def fits(inner: Any, inner_shape: Shape) -> bool:
        return next(_judge(inner, inner_shape, schema, (), about_name=False), None) is None

    shape = schema.complete(shape) if "$ref" in shape else shape
    for keyword, argument in shape.items():
        if keyword in _PARTS:
            kind, list_parts = _PARTS[keyword]
            for inner, part, step in list_parts(value, argument, shape) if has_type(value, kind) else ():
                named = about_name or keyword == "propertyNames"
                yield from _judge(inner, part, schema, (*path, *step), about_name=named)
        elif keyword == "if" and fits(value, argument):
            yield from _judge(value, shape.get("then", {}), schema, path, about_name=about_name)
        if keyword in _KEYWORDS:
            for _ in range(_count_faults(value, keyword, argument, shape, fits)):
                yield Violation(path, keyword, argument, shape, value, about_name, schema)


def _count_faults(value: Any, keyword: str, argument: Any, shape: Shape, fits: _Judge) -> int:
    """How often a value violates a keyword by itself, apart from its parts."""
    if "x-case" in shape and keyword == "enum" and isinstance(value, str):
        value = fold_case(value, shape["x-case"])
    if keyword in _OF_ANY:
        return not _OF_ANY[keyword](value, argument, fits)
    if keyword in _OF_TYPE:
        kind, keeps = _OF_TYPE[keyword]
        return has_type(value, kind) and not keeps(value, argument)
    if keyword in _OF_KEYS and isinstance(value, dict):
        return _OF_KEYS[keyword](value, argument, shape)
    return 0


def list_others(value: dict[str, Any], shape: Shape) -> list[str]:
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
            for key in (list_others(value, shape) if isinstance(argument, dict) else ())
        ),
    ),
}
_OF_ANY: dict[str, Callable[[Any, Any, _Judge], bool]] = {
    "type": lambda value, argument, _: (
        has_type(value, argument)
        if isinstance(argument, str)
        else any(has_type(value, name) for name in argument)
    ),
    "enum": lambda value, argument, _: (
        value in argument
        if isinstance(value, str)
        else any(word == value and isinstance(word, bool) == isinstance(value, bool) for word in argument)
    ),
    "anyOf": lambda value, argument, fits: any(fits(value, part) for part in argument),
    "not": lambda value, argument, fits: not fits(value, argument),
}
_OF_TYPE: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minLength": ("string", lambda value, argument: len(value) >= argument),
    "maxLength": ("string", lambda value, argument: len(value) <= argument),
    "pattern": ("string", lambda value, argument: compile_pattern(argument).search(value) is not None),
    "format": ("string", lambda value, argument: argument != "date-time" or is_date_time(value)),
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
        argument is False and bool(list_others(value, shape))
    ),
}
_KEYWORDS = frozenset((*_OF_ANY, *_OF_TYPE, *_OF_KEYS))

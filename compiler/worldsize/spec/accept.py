"""A quick yes: whether a value surely fits the spec's schema, without loading jsonschema.

Most specs are right, and importing jsonschema takes a fifth of a cold check. So only what is not surely
right goes to jsonschema, which alone decides what is wrong. Nothing is guessed here: a keyword, type or
value that this module does not know makes the answer no.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

Schema = Mapping[str, Any]

_ANNOTATIONS = frozenset({"$schema", "$defs", "title", "description", "examples", "then", "default"})


def accepts(instance: object, schema: Schema, root: Schema) -> bool:
    """Whether ``instance`` surely fits ``schema``.

    Args:
        instance: Plain values as YAML gives them.
        schema: The schema, or a part of it.
        root: The whole schema, which ``$ref`` looks into.

    Returns:
        True only where jsonschema would find no violation; False where it would, or may.
    """
    for keyword, argument in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        judge = _JUDGES.get(keyword)
        if judge is None or not judge(instance, argument, schema, root):
            return False
    return True


def exact(pattern: str) -> str:
    """ECMA 262 reads ``$`` as the very end; Python's would let a final line break pass."""
    return re.sub(r"\$$", r"\\Z", pattern)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(exact(pattern))


def is_number(instance: object) -> bool:
    """Whether a value is a finite number; JSON has no others."""
    if isinstance(instance, float):
        return math.isfinite(instance)
    return isinstance(instance, int) and not isinstance(instance, bool)


def _is_integer(instance: object) -> bool:
    return isinstance(instance, int) and not isinstance(instance, bool)


def _is_mapping(instance: object) -> bool:
    return isinstance(instance, dict)


_TYPES: dict[str, Callable[[object], bool]] = {
    "object": lambda instance: isinstance(instance, dict) and all(isinstance(key, str) for key in instance),
    "array": lambda instance: isinstance(instance, list),
    "string": lambda instance: isinstance(instance, str),
    "integer": _is_integer,
    "number": is_number,
    "boolean": lambda instance: isinstance(instance, bool),
}


def _type(instance: Any, argument: Any, _schema: Schema, _root: Schema) -> bool:
    names = [argument] if isinstance(argument, str) else argument
    return any(name in _TYPES and _TYPES[name](instance) for name in names)


def _properties(instance: Any, argument: Any, _schema: Schema, root: Schema) -> bool:
    if not isinstance(instance, dict):
        return True
    return all(accepts(instance[key], part, root) for key, part in argument.items() if key in instance)


def _additional(instance: Any, argument: Any, schema: Schema, root: Schema) -> bool:
    if not isinstance(instance, dict) or argument is True:
        return True
    known = schema.get("properties", {})
    others = [value for key, value in instance.items() if key not in known]
    if argument is False:
        return not others
    return all(accepts(value, argument, root) for value in others)


def _required(instance: Any, argument: Any, _schema: Schema, _root: Schema) -> bool:
    return not isinstance(instance, dict) or all(key in instance for key in argument)


def _dependent(instance: Any, argument: Any, _schema: Schema, _root: Schema) -> bool:
    if not isinstance(instance, dict):
        return True
    return all(other in instance for key, needed in argument.items() if key in instance for other in needed)


def _condition(instance: Any, argument: Any, schema: Schema, root: Schema) -> bool:
    """``if``/``then``; known for the condition that a value is text, else ``then`` must hold."""
    if argument == {"type": "string"} and not isinstance(instance, str):
        return True
    return accepts(instance, schema.get("then", {}), root)


def _not(instance: Any, argument: Any, _schema: Schema, _root: Schema) -> bool:
    """Known for one form only: a mapping that must not have all of some keys."""
    if set(argument) - {"type", "required"} or argument.get("type") != "object":
        return False
    return isinstance(instance, dict) and not all(key in instance for key in argument.get("required", ()))


def _enum(instance: Any, argument: Any, _schema: Schema, _root: Schema) -> bool:
    return isinstance(instance, str) and instance in argument


def _reference(instance: Any, argument: Any, _schema: Schema, root: Schema) -> bool:
    prefix = "#/$defs/"
    found = root["$defs"].get(argument.removeprefix(prefix)) if argument.startswith(prefix) else None
    return found is not None and accepts(instance, found, root)


def _bound(kind: Callable[[Any], bool], fits: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """A keyword that only judges values of one kind."""
    return lambda instance, argument, _schema, _root: not kind(instance) or fits(instance, argument)


_text = _TYPES["string"]
_JUDGES: dict[str, Callable[[Any, Any, Schema, Schema], bool]] = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": lambda instance, argument, _, root: (
        not isinstance(instance, dict) or all(accepts(key, argument, root) for key in instance)
    ),
    "required": _required,
    "dependentRequired": _dependent,
    "enum": _enum,
    "if": _condition,
    "not": _not,
    "anyOf": lambda instance, argument, _, root: any(accepts(instance, part, root) for part in argument),
    "items": lambda instance, argument, _, root: (
        not isinstance(instance, list) or all(accepts(item, argument, root) for item in instance)
    ),
    "$ref": _reference,
    "pattern": _bound(_text, lambda value, pattern: _compiled(pattern).search(value) is not None),
    "minLength": _bound(_text, lambda value, length: len(value) >= length),
    "maxLength": _bound(_text, lambda value, length: len(value) <= length),
    "minItems": _bound(_TYPES["array"], lambda value, length: len(value) >= length),
    "minProperties": _bound(_is_mapping, lambda value, length: len(value) >= length),
    "maxProperties": _bound(_is_mapping, lambda value, length: len(value) <= length),
    "minimum": _bound(is_number, lambda value, bound: value >= bound),
    "maximum": _bound(is_number, lambda value, bound: value <= bound),
    "exclusiveMinimum": _bound(is_number, lambda value, bound: value > bound),
    "exclusiveMaximum": _bound(is_number, lambda value, bound: value < bound),
}

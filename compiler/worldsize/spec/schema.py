"""The published JSON Schemas of a spec and of an estimate file, and their validator."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from worldsize import resources
from worldsize.base import limits

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


_TYPES: dict[str, type] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int,  # and what `_has_type` says of floats
    "boolean": bool,
    "null": type(None),
}
_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description", "examples", "default"})


class Violation(Struct, frozen=True):
    """One keyword of the schema that one value violates."""

    path: tuple[str | int, ...]  # of the value
    keyword: str  # "type", "enum", "required" …
    argument: Any  # the schema's value for the keyword
    subschema: Mapping[str, Any]  # the part of the schema that contains the keyword
    instance: Any  # the value
    about_name: bool  # the value is a key of the mapping at `path`


SPEC = "spec"
ESTIMATE = "estimate"  # refers to definitions of the spec's


@cache
def load_schema(name: str = SPEC) -> Mapping[str, Any]:
    """A schema as plain values."""
    schema: Mapping[str, Any] = json.loads(read_schema(name))
    return schema


def read_schema(name: str) -> str:
    """The text of a published schema."""
    return (resources.schemas() / f"{name}.schema.json").read_text(encoding="utf-8")


@cache
def _definitions(name: str) -> Mapping[str, Any]:
    """What a ``$ref`` of a schema refers to, by the last part of its address."""
    definitions: Mapping[str, Any] = load_schema(SPEC)["$defs"]
    return definitions if name == SPEC else {**definitions, **load_schema(name)["$defs"]}


def _refer(reference: str, definitions: Mapping[str, Any]) -> Any:
    return definitions[reference.rpartition("/")[2]]


def find_violations(instance: object, name: str = SPEC) -> list[Violation]:
    """Find the violations of a schema with jsonschema, up to a few hundred."""
    if _conforms(instance, load_schema(name), _definitions(name)):
        return []
    return [_violation(error) for error in islice(_validator(name).iter_errors(instance), limits.SAME)]


def _violation(error: ValidationError) -> Violation:
    subschema: Any = error.schema
    return Violation(
        path=tuple(error.absolute_path),
        keyword=str(error.validator),
        argument=error.validator_value,
        subschema=subschema,
        instance=error.instance,
        about_name="propertyNames" in error.absolute_schema_path,
    )


def matches_schema(text: str, subschema: Mapping[str, Any]) -> bool:
    """Whether a text satisfies the enumeration and pattern of a part of the schema."""
    wanted = subschema.get("enum")
    pattern = subschema.get("pattern", "")
    return (wanted is None or text in wanted) and _compile(pattern).search(text) is not None


@cache
def _validator(name: str) -> Any:
    # Imported here: what conforms needs no jsonschema, and loading it takes a tenth of a second.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    make: Any = extend  # typeshed's stub leaves it untyped
    keywords = {"additionalProperties": _additional_properties, "not": _not, "pattern": _pattern}
    strict = make(Draft202012Validator, keywords)
    strict.descend, strict.is_type = _descend, _is_type
    return strict(_inline_references(load_schema(name), _definitions(name)))


def _descend(
    validator: Any, instance: object, schema: Mapping[str, Any], path: Any = None, schema_path: Any = None
) -> Iterator[ValidationError]:
    """Check a part of the instance; unlike jsonschema, make no validator for each, as no ``$ref`` is left."""
    judges = validator.VALIDATORS
    for keyword, argument in schema.items():
        judge = judges.get(keyword)
        for error in (judge and judge(validator, argument, instance, schema)) or ():
            if not isinstance(error.validator, str):  # it is new, and not of a part of this instance
                error.validator, error.validator_value = keyword, argument
                error.instance, error.schema = instance, schema
            error.schema_path.appendleft(keyword)
            if path is not None:
                error.path.appendleft(path)
            if schema_path is not None:
                error.schema_path.appendleft(schema_path)
            yield error


def _inline_references(part: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace each ``$ref`` by what it refers to, which jsonschema would look up again for every value.

    No definition of the schema refers to itself.
    """
    if isinstance(part, list):
        return [_inline_references(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    referred = _refer(reference, definitions) if reference else {}
    whole = {**referred, **part}
    return {
        key: _inline_references(value, definitions)
        for key, value in whole.items()
        if key not in ("$ref", "$defs")
    }


def _has_type(instance: object, name: str) -> bool:
    """Whether a value has a type of the schema; a number is finite, as JSON has no others."""
    if name in ("integer", "number") and isinstance(instance, float):
        return math.isfinite(instance) and (name == "number" or instance.is_integer())
    return isinstance(instance, _TYPES[name]) and (name == "boolean" or not isinstance(instance, bool))


def _is_type(_validator: object, instance: object, name: str) -> bool:
    return _has_type(instance, name)


def _additional_properties(
    validator: object, argument: Any, instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """Check keys that `properties` does not name, in their order; jsonschema takes them as a set."""
    if not isinstance(instance, dict):
        return
    named = schema.get("properties", {})
    others = [key for key in instance if key not in named]
    if isinstance(argument, dict):
        for key in others:
            yield from _descend(validator, instance[key], argument, path=key)
    elif others and not argument:
        yield _make_error(f"the schema names no {others!r}")


def _not(
    validator: object, argument: Mapping[str, Any], instance: object, _schema: object
) -> Iterator[ValidationError]:
    if next(_descend(validator, instance, argument), None) is None:
        yield _make_error(f"{instance!r} should not be valid under {argument!r}")


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Let ``$`` match only at the end, as in ECMA 262; Python's also matches before a final newline."""
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def _pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and _compile(pattern).search(instance) is None:
        yield _make_error(f"{instance!r} does not match {pattern!r}")


def _make_error(message: str) -> ValidationError:
    from jsonschema.exceptions import ValidationError  # imported late, as the validator is

    return ValidationError(message)


def _conforms(value: Any, part: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    """Whether a value satisfies a part of the schema; ``definitions`` are what ``$ref`` refers to.

    Most specs do, and need no jsonschema, whose import is a quarter of the time of a check.
    """

    def holds(inner: Any, inner_part: Mapping[str, Any]) -> bool:
        return _conforms(inner, inner_part, definitions)

    for keyword, argument in part.items():
        if keyword in _ANNOTATIONS or keyword == "then":
            continue
        if keyword == "$ref":
            kept = holds(value, _refer(argument, definitions))
        elif keyword in _OF_ANY:
            kept = _OF_ANY[keyword](value, argument, part, holds)
        else:
            kind, keeps = _OF_TYPE[keyword]
            kept = not _has_type(value, kind) or keeps(value, argument, part, holds)
        if not kept:
            return False
    return True


_Holds = Callable[[Any, Mapping[str, Any]], bool]
_Keeps = Callable[[Any, Any, Mapping[str, Any], _Holds], bool]


def _keeps_additional(value: Any, argument: Any, part: Mapping[str, Any], holds: _Holds) -> bool:
    others = [each for key, each in value.items() if key not in part.get("properties", {})]
    return (
        all(holds(each, argument) for each in others)
        if isinstance(argument, dict)
        else argument or not others
    )


_OF_ANY: dict[str, _Keeps] = {
    "type": lambda value, argument, _part, _holds: any(
        _has_type(value, name) for name in ([argument] if isinstance(argument, str) else argument)
    ),
    "enum": lambda value, argument, _part, _holds: any(
        each == value and isinstance(each, bool) == isinstance(value, bool) for each in argument
    ),
    "anyOf": lambda value, argument, _part, holds: any(holds(value, each) for each in argument),
    "not": lambda value, argument, _part, holds: not holds(value, argument),
    "if": lambda value, argument, part, holds: (
        not holds(value, argument) or holds(value, part.get("then", {}))
    ),
}
_OF_TYPE: dict[str, tuple[str, _Keeps]] = {
    "minLength": ("string", lambda value, argument, _part, _holds: len(value) >= argument),
    "maxLength": ("string", lambda value, argument, _part, _holds: len(value) <= argument),
    "pattern": (
        "string",
        lambda value, argument, _part, _holds: _compile(argument).search(value) is not None,
    ),
    "minimum": ("number", lambda value, argument, _part, _holds: value >= argument),
    "maximum": ("number", lambda value, argument, _part, _holds: value <= argument),
    "exclusiveMinimum": ("number", lambda value, argument, _part, _holds: value > argument),
    "exclusiveMaximum": ("number", lambda value, argument, _part, _holds: value < argument),
    "minItems": ("array", lambda value, argument, _part, _holds: len(value) >= argument),
    "items": ("array", lambda value, argument, _part, holds: all(holds(each, argument) for each in value)),
    "minProperties": ("object", lambda value, argument, _part, _holds: len(value) >= argument),
    "maxProperties": ("object", lambda value, argument, _part, _holds: len(value) <= argument),
    "required": ("object", lambda value, argument, _part, _holds: all(key in value for key in argument)),
    "dependentRequired": (
        "object",
        lambda value, argument, _part, _holds: all(
            key not in value or all(other in value for other in others) for key, others in argument.items()
        ),
    ),
    "propertyNames": (
        "object",
        lambda value, argument, _part, holds: all(holds(key, argument) for key in value),
    ),
    "properties": (
        "object",
        lambda value, argument, _part, holds: all(
            holds(value[key], each) for key, each in argument.items() if key in value
        ),
    ),
    "additionalProperties": ("object", _keeps_additional),
}

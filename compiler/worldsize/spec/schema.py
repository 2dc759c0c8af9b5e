"""The published JSON Schema of the spec, and its validator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from worldsize import resources
from worldsize.base import limits
from worldsize.spec.accept import accepts, exact, is_number

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


class Violation(Struct, frozen=True):
    """One keyword of the schema that one value violates."""

    path: tuple[str | int, ...]  # of the value
    keyword: str  # "type", "enum", "required" …
    argument: Any  # the schema's value for the keyword
    subschema: Mapping[str, Any]  # the part of the schema that contains the keyword
    instance: Any  # the value
    about_name: bool  # the value is a key of the mapping at `path`


@cache
def load_schema() -> Mapping[str, Any]:
    """The schema as plain values."""
    text = (resources.schemas() / "spec.schema.json").read_text(encoding="utf-8")
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def find_violations(instance: object) -> list[Violation]:
    """Find the violations of the schema with jsonschema, up to a few hundred."""
    if accepts(instance, load_schema(), load_schema()):
        return []
    return [_violation(error) for error in islice(_validator().iter_errors(instance), limits.SAME)]


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
    return (wanted is None or text in wanted) and re.search(exact(pattern), text) is not None


@cache
def _validator() -> Any:
    # Imported here: loading jsonschema costs more than everything else `check` does for a spec.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checker = Draft202012Validator.TYPE_CHECKER.redefine("number", lambda _, instance: is_number(instance))
    make: Any = extend  # typeshed's stub leaves it untyped
    strict = make(Draft202012Validator, {"pattern": _pattern}, type_checker=checker)
    return strict(load_schema())


def _pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not re.search(exact(pattern), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")

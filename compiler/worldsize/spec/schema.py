"""The published JSON Schema of the spec, and the validator that judges by it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from worldsize import resources

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


@cache
def document() -> Mapping[str, Any]:
    """The schema as plain values."""
    text = (resources.schemas() / "spec.schema.json").read_text(encoding="utf-8")
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def violations(instance: object) -> list[ValidationError]:
    """Every place where the instance breaks the schema, in jsonschema's own terms."""
    return list(_validator().iter_errors(instance))


@cache
def _validator() -> Any:
    # Imported here: loading jsonschema costs more than everything else `check` does for a spec.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415

    checker = Draft202012Validator.TYPE_CHECKER.redefine("number", _is_finite_number)
    strict = extend(Draft202012Validator, {"pattern": _pattern}, type_checker=checker)
    return strict(document())


def _is_finite_number(_checker: object, instance: object) -> bool:
    if isinstance(instance, bool) or not isinstance(instance, int | float):
        return False
    return isinstance(instance, int) or math.isfinite(instance)


def _pattern(_validator: object, pattern: str, instance: object, _schema: object) -> Iterator[ValidationError]:
    """ECMA 262 reads ``$`` as the very end; Python's would let a final line break pass."""
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415

    exact = re.sub(r"\$$", r"\\Z", pattern)
    if isinstance(instance, str) and not re.search(exact, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")

"""The form of a component or a job: its inputs as the designer shows them, and checks of what is typed."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from worldsize.serving.database import mapping_of, text_of

_LITERALS = ("", "string", "integer", "number", "boolean", "enum")


class Field(Struct, frozen=True):
    """One input. ``type`` is a literal's or empty, ``enum`` for one with choices, or the type of data."""

    name: str
    type: str
    default: str = ""
    description: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False

    @property
    def data(self) -> bool:
        """Whether the input is data and not a value."""
        return self.type not in _LITERALS

    @property
    def hint(self) -> str:
        """``integer, 1 to 100, optional``."""
        parts = [self.type] if self.type else []
        if self.minimum is not None and self.maximum is not None:
            parts.append(f"{self.minimum:g} to {self.maximum:g}")
        elif self.minimum is not None:
            parts.append(f"at least {self.minimum:g}")
        elif self.maximum is not None:
            parts.append(f"at most {self.maximum:g}")
        return ", ".join([*parts, "optional"] if self.optional else parts)


def component_fields(spec: Mapping[str, Any]) -> list[Field]:
    """The inputs of a component's specification, in their order."""
    return [
        _field(name, port) for name, port in mapping_of(spec, "inputs").items() if isinstance(port, Mapping)
    ]


def _field(name: str, spec: Mapping[str, Any]) -> Field:
    kind = text_of(spec, "type").lower() or "string"
    choices = spec.get("enum")
    default = spec.get("default")
    return Field(
        name=name,
        type="enum" if choices else {"float": "number", "bool": "boolean"}.get(kind, kind),
        default="" if default is None else value_text(default),
        description=text_of(spec, "description"),
        minimum=_number(spec.get("min")),
        maximum=_number(spec.get("max")),
        choices=tuple(value_text(choice) for choice in choices) if isinstance(choices, list) else (),
        optional=str(spec.get("optional", "")).lower() == "true",
    )


def job_fields(properties: Mapping[str, Any]) -> list[Field]:
    """The inputs of a submitted job; values have no type in its body, so that they are text."""
    fields = []
    for name, port in mapping_of(properties, "inputs").items():
        if not isinstance(port, Mapping):
            continue
        kind = text_of(port, "jobInputType") or "literal"
        value = port.get("value") if kind == "literal" else port.get("uri")
        fields.append(
            Field(name, "" if kind == "literal" else kind, "" if value is None else value_text(value))
        )
    return fields


def check_value(field: Field, text: str) -> str | None:
    """Why a text cannot be the value of an input; None if it can."""
    if not text.strip():
        return None if field.optional or field.type in ("", "string") else "A value is needed."
    if field.choices and text not in field.choices:
        return f"Choose one of {', '.join(field.choices)}."
    return _check_number(field, text) if field.type in ("integer", "number") else None


def _check_number(field: Field, text: str) -> str | None:
    value = _number(text)
    if value is None or (field.type == "integer" and not value.is_integer()):
        return "This is not a whole number." if field.type == "integer" else "This is not a number."
    if field.minimum is not None and value < field.minimum:
        return f"The value must be at least {field.minimum:g}."
    if field.maximum is not None and value > field.maximum:
        return f"The value must be at most {field.maximum:g}."
    return None


def change_inputs(properties: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """The body of a job with other inputs; everything else stays as it was submitted."""
    changed: dict[str, Any] = copy.deepcopy(dict(properties))
    inputs = changed.get("inputs") or {}
    for name, text in values.items():
        port = inputs[name]
        port["value" if text_of(port, "jobInputType") in ("", "literal") else "uri"] = text
    return changed


def value_text(value: object) -> str:
    """A value as a form holds it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None

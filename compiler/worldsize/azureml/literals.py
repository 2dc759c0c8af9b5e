"""Literals as Azure ML renders them on a command line, and whether a port accepts one."""

from __future__ import annotations

import math
from typing import Any

PRIMITIVES = ("string", "number", "integer", "boolean")


def render_literal(value: Any) -> str:
    """The text that replaces ``${{inputs.x}}``: Python's ``str`` of the value, unquoted.

    So ``true`` becomes ``True``, ``1.0`` stays ``1.0`` and ``0.00001`` becomes ``1e-05``
    (azure-ai-ml, ``to_rest_dataset_literal_inputs``).
    """
    return "" if value is None else str(value)


def primitive_type(value: Any) -> str:
    """The primitive type that Azure ML gives a literal by its Python type."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"


def accepts_literal(type_: str, value: Any) -> bool:
    """Whether a literal suits an input of a primitive type.

    A number may be given as text, because that is how it travels. A boolean takes YAML's booleans
    and the words true and false in any case; any other type accepts every value.
    """
    if type_ == "number":
        return _number(value) is not None
    if type_ == "integer":
        return _is_integer(value)
    if type_ == "boolean":
        return isinstance(value, bool) or (isinstance(value, str) and value.lower() in ("true", "false"))
    return not (type_ == "string" and isinstance(value, (dict, list)))


def parse_number(value: Any) -> float | int | None:
    """The number behind a literal, also one given as text; None where there is none."""
    return _number(value)


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        as_float = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(as_float):
        return None
    return value if isinstance(value, int) else as_float


def _is_integer(value: Any) -> bool:
    if isinstance(value, str):
        try:
            int(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int) and not isinstance(value, bool)

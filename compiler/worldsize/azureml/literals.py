"""Literals: how Azure ML renders them on a command line, and whether a port accepts them."""

from __future__ import annotations

import math
import re
from typing import Any

from worldsize.azureml.model import Port
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean

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
    """Whether an input of a primitive type accepts a literal.

    A number may be given as text, because it is passed as text. A boolean takes YAML's booleans
    and the words true and false in any case; any other type accepts every value.
    """
    if type_ == "number":
        return parse_number(value) is not None
    if type_ == "integer":
        return _is_integer(value)
    if type_ == "boolean":
        return isinstance(value, bool) or (isinstance(value, str) and value.lower() in ("true", "false"))
    return not (type_ == "string" and isinstance(value, (dict, list)))


def parse_number(value: Any) -> float | int | None:
    """The number that a literal stands for, also as text; None for another value."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return value if isinstance(value, int) else number


def _is_integer(value: Any) -> bool:
    if isinstance(value, str):
        try:
            int(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int) and not isinstance(value, bool)


SINGLE_BRACES = re.compile(r"(?<!\{)\$?\{\s*(?:parent|inputs|outputs|plan)\.[^{}]*\}(?!\})")
"""``${parent.…}``: what looks like an expression and is plain text."""


def check_value(name: str, value: Any, port: Port, span: Span) -> Problem | None:
    """Report a literal that the port's type, range or enumeration does not allow.

    Args:
        name: The input's name in the message.
        value: The literal. Enumerations are compared with the text that Azure ML renders it to.
        port: The port, of a primitive type.
        span: Where to point.
    """
    shown = render_literal(value)
    shown_yaml = shown.lower() if isinstance(value, bool) else shown  # as YAML has it
    if value is None:
        help_ = "write a value, or leave the input out where it has a default"
        return Problem("input-type", span, f"`{name}` has no value", help_)
    if not accepts_literal(port.type, value):
        message = f"`{shown_yaml[:60]}` is not {article(port.type)}, as input `{name}` requires"
        return Problem("input-type", span, message, _suggest_value(port.type, value))
    if port.enum and isinstance(port.enum.value, list):
        allowed = [render_literal(item) for item in port.enum.value]
        if shown in allowed:
            return None
        listed = "write one of " + ", ".join(f"`{item}`" for item in allowed)
        message = f"`{name}` cannot be `{shown_yaml[:60]}`"
        return Problem("input-not-in-enum", span, message, did_you_mean(shown, allowed) or listed)
    return _check_range(name, value, port, span)


def _check_range(name: str, value: Any, port: Port, span: Span) -> Problem | None:
    number = parse_number(value) if port.type in ("number", "integer") else None
    low = parse_number(port.min.value) if port.min else None
    high = parse_number(port.max.value) if port.max else None
    if number is None:
        return None
    if low is not None and number < low:
        message = f"`{name}` is {number}, below its minimum {low}"
        return Problem("input-out-of-range", span, message, f"write {low} or more")
    if high is not None and number > high:
        message = f"`{name}` is {number}, above its maximum {high}"
        return Problem("input-out-of-range", span, message, f"write {high} or less")
    return None


def article(type_: str) -> str:
    """The type with its article: ``an integer``."""
    return f"an {type_}" if type_[:1] in "aeiou" and not type_.startswith("uri") else f"a {type_}"


def _suggest_value(type_: str, value: Any) -> str:
    if type_ == "boolean":
        return "write `true` or `false`"
    if type_ == "integer" and isinstance(value, float) and abs(value) < 1e15:
        return f"write a whole number such as {round(value)}"
    return f"write {article(type_)}"

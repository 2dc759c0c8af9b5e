"""Whether a value fits the port it is for, and what to say where it does not."""

from __future__ import annotations

import re
from typing import Any

from worldsize.azureml import literals
from worldsize.azureml.model import Port
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean

SINGLE_BRACES = re.compile(r"(?<!\{)\$?\{\s*(?:parent|inputs|outputs|plan)\.[^{}]*\}(?!\})")
"""``${parent.…}``: what looks like an expression and is plain text."""


def check_value(name: str, value: Any, port: Port, span: Span) -> Problem | None:
    """The problem of a literal that the port's type, range or enumeration excludes.

    Args:
        name: The input, as the message calls it.
        value: The literal. Enumerations are compared with the text that Azure ML renders it to.
        port: What it is for, of a primitive type.
        span: Where to point.
    """
    shown = literals.render(value)
    said = shown.lower() if isinstance(value, bool) else shown  # as YAML has it
    if value is None:
        help_ = "write a value, or leave the input out where it has a default"
        return Problem("input-type", span, f"`{name}` has no value", help_)
    if not literals.accepts(port.type, value):
        message = f"`{said[:60]}` is not {article(port.type)}, as input `{name}` wants"
        return Problem("input-type", span, message, _as_wanted(port.type, value))
    if port.enum and isinstance(port.enum.value, list):
        allowed = [literals.render(item) for item in port.enum.value]
        if shown in allowed:
            return None
        listed = "write one of " + ", ".join(f"`{item}`" for item in allowed)
        message = f"`{name}` cannot be `{said[:60]}`"
        return Problem("input-not-in-enum", span, message, did_you_mean(shown, allowed) or listed)
    return _range(name, value, port, span)


def _range(name: str, value: Any, port: Port, span: Span) -> Problem | None:
    given = literals.number(value) if port.type in ("number", "integer") else None
    low = literals.number(port.min.value) if port.min else None
    high = literals.number(port.max.value) if port.max else None
    if given is None:
        return None
    if low is not None and given < low:
        message = f"`{name}` is {given}, below its minimum {low}"
        return Problem("input-out-of-range", span, message, f"write {low} or more")
    if high is not None and given > high:
        message = f"`{name}` is {given}, above its maximum {high}"
        return Problem("input-out-of-range", span, message, f"write {high} or less")
    return None


def article(type_: str) -> str:
    """The type with its article: ``an integer``."""
    return f"an {type_}" if type_[:1] in "aeiou" and not type_.startswith("uri") else f"a {type_}"


def _as_wanted(type_: str, value: Any) -> str:
    if type_ == "boolean":
        return "write `true` or `false`"
    if type_ == "integer" and isinstance(value, float) and abs(value) < 1e15:
        return f"write a whole number such as {round(value)}"
    return f"write {article(type_)}"

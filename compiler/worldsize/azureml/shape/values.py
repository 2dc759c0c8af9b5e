"""Whether a scalar has the shape it should have, by the SDK's reading: ``"4"`` is a whole number.

JSON Schema reads otherwise, which is why specs are judged by :mod:`worldsize.documents.shape` alone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from worldsize.azureml.shape.catalog import Shape
from worldsize.documents.shape import has_type

_DATE_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d{1,12})?)?"
    r"(Z|[+-]\d{2}(?::?\d{2})?)?"
)


def fits_shape(value: Any, shape: Shape) -> bool:
    """Whether a scalar ``value`` (not null) has ``shape``, which must not be a union."""
    kind = _KINDS.get(shape.get("x-kind", ""))
    if kind is not None:
        return kind(value, shape)
    if "enum" in shape:
        return _in_enum(value, shape)
    return _has_type(value, shape.get("type")) and _keeps_rules(value, shape)


def fold_case(word: str, case: str) -> str:
    """``word`` as it is compared where case is exact, ignored, or turned from camel to snake."""
    if case == "snake":
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word).lower()
    return word.lower() if case == "ignore" else word


def takes_text(shape: Shape) -> bool:
    """Whether some text could have ``shape``."""
    types = shape.get("type")
    return "enum" in shape or types is None or types == "string" or "string" in types


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A schema's pattern; the set of them is fixed, so the cache is bounded."""
    return re.compile(pattern)


def _has_type(value: Any, types: str | list[str] | None) -> bool:
    names = [types] if isinstance(types, str) else types
    return names is None or any(has_type(value, name) for name in names)


def _keeps_rules(value: Any, shape: Shape) -> bool:
    if not isinstance(value, str):
        return True
    if shape.get("format") == "date-time":
        return is_date_time(value)
    pattern = shape.get("pattern")
    return pattern is None or compile_pattern(pattern).search(value) is not None


def _in_enum(value: Any, shape: Shape) -> bool:
    allowed = shape["enum"]
    if not isinstance(value, str):
        return isinstance(value, bool) and any(value is word for word in allowed)
    case = shape.get("x-case", "exact")
    return fold_case(value, case) in allowed


def _is_binding(value: Any, shape: Shape) -> bool:
    return isinstance(value, str) and compile_pattern(shape["pattern"]).search(value) is not None


def _is_numeric(value: Any, shape: Shape) -> bool:
    if isinstance(value, str):
        return compile_pattern(shape["pattern"]).search(value) is not None
    return has_type(value, shape["x-kind"])


def _is_boolean(value: Any, shape: Shape) -> bool:
    return isinstance(value, bool) or (value in shape["enum"] if isinstance(value, (int, str)) else False)


def _is_version(value: Any, _: Shape) -> bool:
    return isinstance(value, (str, int, float))


_KINDS: dict[str, Callable[[Any, Shape], bool]] = {
    "binding": _is_binding,
    "integer": _is_numeric,
    "number": _is_numeric,
    "boolean": _is_boolean,
    "version": _is_version,
}


def is_date_time(text: str) -> bool:
    """Whether ``text`` is an ISO 8601 date with a time that exists."""
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return False
    try:
        dt.datetime(*(int(part or 0) for part in match.groups()[:6]))  # type: ignore[arg-type]
    except ValueError:
        return False
    return True

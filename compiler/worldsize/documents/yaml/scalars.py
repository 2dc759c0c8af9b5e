"""What an unquoted word means by YAML 1.1, the way PyYAML's SafeLoader (and so Azure ML) reads it.

The tables of patterns are PyYAML's own, so that the two cannot drift apart. The conversions are
written out because PyYAML's need a loader object and raise a bare ``ValueError`` on words such as
``2024-13-45``; here those stay text, and :func:`explain_unreadable` says why.
"""

from __future__ import annotations

import binascii
import datetime as dt
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from worldsize.base.wording import shorten

PlainValue = None | bool | int | float | str | bytes | dt.date | dt.datetime

_PREFIX = "tag:yaml.org,2002:"
_PATTERNS: dict[str, list[tuple[str, Any]]] = {
    first: [(tag.removeprefix(_PREFIX), pattern) for tag, pattern in rules]
    for first, rules in Resolver.yaml_implicit_resolvers.items()
}
_BOOLEANS = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
# Python refuses to read longer decimal numbers, and sexagesimal ones cost the square of their length.
_LONGEST_NUMBER = 4300
KNOWN_TAGS = frozenset({"null", "bool", "int", "float", "str", "binary", "timestamp", "value", "merge"})


def classify_scalar(text: str, style: str = "", tag: str | None = None) -> str:
    """The short YAML tag of a scalar: ``str``, ``int``, ``float``, ``bool``, ``null`` and so on.

    Args:
        text: The content after unquoting and folding.
        style: The node's style; anything but plain is text.
        tag: An explicit tag as written (``!!int``) or long, or None.
    """
    if tag is not None and tag != "!":
        return tag.removeprefix(_PREFIX).removeprefix("!!")
    if style and tag is None:
        return "str"
    for name, pattern in _PATTERNS.get(text[:1], ()):
        if pattern.match(text):
            return name
    return "str"


def resolve_scalar(text: str, style: str = "", tag: str | None = None) -> PlainValue:
    """The Python value of a scalar; a word that looks like a number or date but is not one stays text."""
    name = classify_scalar(text, style, tag)
    if name == "str":
        return text
    try:
        return _convert(name, text)
    except (ValueError, OverflowError, KeyError, IndexError, AttributeError):
        return text


def explain_unreadable(
    text: str, style: str = "", tag: str | None = None, *, is_key: bool = False
) -> str | None:
    """Why PyYAML fails on this scalar, or None if it does not. ``=`` and ``<<`` are allowed as keys."""
    name = classify_scalar(text, style, tag)
    if name == "str":
        return None
    if name not in KNOWN_TAGS:
        return f"tag `{tag}` is unknown to Azure ML"
    if name in ("value", "merge") and not is_key:
        return f"a bare `{text}` is not a value"
    try:
        _convert(name, text)
    except (ValueError, OverflowError, KeyError, IndexError, AttributeError):
        shown = shorten(text, 40)
        noun = {"timestamp": "date", "int": "whole number", "float": "number"}.get(name, name)
        return f"`{shown}` is read as a {noun} but is not a valid one"
    return None


def _convert(name: str, text: str) -> PlainValue:
    converter = _CONVERTERS.get(name)
    return text if converter is None else converter(text)


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(text[:20])
    digits = text.replace("_", "")
    sign = -1 if digits[0] == "-" else 1
    digits = digits[1:] if digits[0] in "+-" else digits
    if digits == "0":
        return 0
    if digits.startswith("0b"):
        return sign * int(digits, 2)
    if digits.startswith("0x"):
        return sign * int(digits, 16)
    if digits[0] == "0":
        return sign * int(digits, 8)
    if ":" in digits:
        return sign * int(_sexagesimal([int(part) for part in digits.split(":")]))
    return sign * int(digits)


def _float(text: str) -> float:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(text[:20])
    digits = text.replace("_", "").lower()
    sign = -1.0 if digits[0] == "-" else 1.0
    digits = digits[1:] if digits[0] in "+-" else digits
    if digits == ".inf":
        return sign * float("inf")
    if digits == ".nan":
        return float("nan")
    if ":" in digits:
        return sign * float(_sexagesimal([float(part) for part in digits.split(":")]))
    return sign * float(digits)


def _sexagesimal(parts: list[Any]) -> Any:
    """Base sixty, least digit last: ``1:30`` is 90. The order of additions is PyYAML's."""
    total: Any = type(parts[0])(0)
    base = 1
    for part in reversed(parts):
        total += part * base
        base *= 60
    return total


def _timestamp(text: str) -> dt.date | dt.datetime:
    match = SafeConstructor.timestamp_regexp.match(text)
    if match is None:
        raise ValueError(text)
    part = match.groupdict()
    year, month, day = int(part["year"]), int(part["month"]), int(part["day"])
    if not part["hour"]:
        return dt.date(year, month, day)
    micro = int((part["fraction"] or "")[:6].ljust(6, "0"))
    zone = _zone(part)
    clock = (int(part["hour"]), int(part["minute"]), int(part["second"]))
    return dt.datetime(year, month, day, *clock, micro, tzinfo=zone)


def _zone(part: dict[str, str | None]) -> dt.timezone | None:
    if part["tz_sign"]:
        offset = dt.timedelta(hours=int(part["tz_hour"] or 0), minutes=int(part["tz_minute"] or 0))
        return dt.timezone(-offset if part["tz_sign"] == "-" else offset)
    return dt.timezone.utc if part["tz"] else None


def _binary(text: str) -> bytes:
    try:
        return b64decode(text.encode("ascii"))
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ValueError(str(error)) from error


_CONVERTERS: dict[str, Callable[[str], PlainValue]] = {
    "int": _integer,
    "float": _float,
    "bool": lambda text: _BOOLEANS[text.lower()],
    "null": lambda _: None,
    "timestamp": _timestamp,
    "binary": _binary,
}

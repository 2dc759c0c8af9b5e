"""Converts YAML nodes to the plain values that JSON Schema checks, and describes values in words."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from typing import Any

from worldsize.base.wording import shorten
from worldsize.documents.shape import TYPE_WORDS, has_type
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence

Plain = Any  # dict | list | str | bool | int | float | date | bytes | None

# Azure ML reads YAML 1.1, where a number with an exponent needs both a dot and a sign.
_EXPONENT_NUMBER = re.compile(r"([-+]?)(\d[\d_]*)(?:\.(\d*))?[eE]([-+]?)(\d+)")


def to_plain(node: Node) -> Plain:
    """Plain Python values, with the *text* of every key: a key ``on`` stays ``"on"``."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [to_plain(item) for item in node.items]
    return {key.text: to_plain(value) for key, value in node.items()}


def describe_type(value: Plain) -> str:
    """The type of a value in words: ``text``, ``a whole number``, ``a list``."""
    if isinstance(value, float):
        return TYPE_WORDS["number"] if math.isfinite(value) else "not a finite number"
    if isinstance(value, dt.date | bytes):
        return "a date" if isinstance(value, dt.date) else "binary data"
    return next((words for name, words in TYPE_WORDS.items() if has_type(value, name)), "nothing")


def write_flow(value: Plain) -> str:
    """Write a short value on one line, in YAML's flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {write_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write_flow(item) for item in value) + "]"
    if isinstance(value, str):
        # `\Z`, not `$`, because a trailing line break must be quoted.
        return (
            value
            if re.match(r"(?!true|false|yes|no|on|off|null)[A-Za-z./][\w./-]*(:[\w./-]+)*\Z", value)
            else json.dumps(value, ensure_ascii=False)
        )
    return json.dumps(value, default=str)


def show_value(node: Node) -> str:
    """The user's token for a message, shortened if it is long."""
    if not isinstance(node, Scalar):
        return "{…}" if isinstance(node, Mapping) else "[…]"
    return shorten(node.text, 40)


def number_with_dot(text: str) -> str | None:
    """Rewrite a number that YAML 1.1 reads as text: ``1e-3`` becomes ``1.0e-3``."""
    match = _EXPONENT_NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, exponent_sign, exponent = match.groups()
    return f"{sign}{whole}.{fraction or '0'}e{exponent_sign or '+'}{exponent}"

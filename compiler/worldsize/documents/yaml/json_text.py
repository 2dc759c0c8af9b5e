"""Reads JSON with exact positions into YAML nodes: for configuration files that a job names.

A YAML reader accepts most JSON, but reads ``1e-3`` as text, refuses tabs, and ignores errors that stop JSON
readers. What only lenient readers accept (comments, a comma before a closing bracket) is a fault of its own
kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from worldsize.base import limits
from worldsize.base.source import Source
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence

_BLANK = re.compile(r"[ \t\r\n]+|(?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_WORD = re.compile(r"[^\s,:\[\]{}\"'#]+")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|NaN|-?Infinity")
_PYTHON = {"True": "true", "False": "false", "None": "null"}


class Fault(NamedTuple):
    """An error in the text: ``syntax`` (no reader accepts it), ``lenient`` (some do) or ``duplicate``."""

    kind: str
    start: int
    end: int
    message: str
    help: str
    first: tuple[int, int] | None = None  # where a repeated key stands first


class _Stop(Exception):  # noqa: N818 - how reading ends early, never seen outside
    def __init__(self, start: int, end: int, message: str, help_: str) -> None:
        super().__init__(message)
        self.fault = Fault("syntax", start, end, message, help_)


def read_json(source: Source) -> tuple[Node | None, list[Fault]]:
    """The value of a text, and its faults; the value is None if the text is not JSON."""
    reader = _Reader(source)
    try:
        root = reader.whole()
    except _Stop as stop:
        return None, [*reader.faults, stop.fault]
    return root, reader.faults


class _Reader:
    """The position in the text and the faults so far."""

    def __init__(self, source: Source) -> None:
        self.source, self.text, self.at = source, source.text, 0
        self.faults: list[Fault] = []

    def whole(self) -> Node:
        """The one value of the file."""
        self.skip()
        if self.at == len(self.text):
            raise _Stop(0, 0, "the file is empty", "write an object `{…}`")
        root = self.value(0)
        self.skip()
        if self.at < len(self.text):
            raise _Stop(self.at, self.at + 1, "there is text after the end of the value", "remove it")
        return root

    def skip(self) -> None:
        """Go to the next token."""
        while blank := _BLANK.match(self.text, self.at):
            if blank["comment"] is not None:
                message = "this comment is not valid JSON"
                first_line = self.at + len(blank.group().splitlines()[0])
                self.faults.append(Fault("lenient", self.at, first_line, message, "remove it"))
            self.at = blank.end()

    def peek(self) -> str:
        """The next character, or nothing at the end."""
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Node:
        """Any value."""
        if depth > limits.DEPTH:
            raise _Stop(self.at, self.at + 1, "the value is nested too deeply", "write it flatter")
        first = self.peek()
        if first == "{":
            return self._mapping(depth)
        if first == "[":
            return self._sequence(depth)
        return self._string() if first == '"' else self._plain()

    def _mapping(self, depth: int) -> Mapping:
        start, entries = self.at, list[tuple[Scalar, Node]]()
        seen: dict[str, Scalar] = {}
        for _ in self._items("{", "}"):
            key = self._key()
            if key.text in seen:
                first = seen[key.text]
                message, place = f"the key `{key.text}` is given twice", (first.start, first.end)
                help_ = "keep one of the two"
                self.faults.append(Fault("duplicate", key.start, key.end, message, help_, place))
            seen.setdefault(key.text, key)
            self.skip()
            if self.peek() != ":":
                raise _Stop(
                    key.start, key.end, f"the key `{key.text}` has no `:` after it", "write `: value`"
                )
            self.at += 1
            self.skip()
            entries.append((key, self.value(depth + 1)))
        return Mapping(self.source, start, self.at, entries, flow=True)

    def _sequence(self, depth: int) -> Sequence:
        start, items = self.at, list[Node]()
        for _ in self._items("[", "]"):
            items.append(self.value(depth + 1))
        return Sequence(self.source, start, self.at, items, flow=True)

    def _items(self, opening: str, closing: str) -> Iterator[None]:
        """Stop at each item between two brackets; the next turn begins behind the item."""
        start, message = self.at, f"this `{opening}` is never closed"
        never_closed = _Stop(start, start + 1, message, f"write `{closing}` at its end")
        self.at += 1
        self.skip()
        while self.peek() != closing:
            if self.at == len(self.text):
                raise never_closed
            yield
            end = self.at
            self.skip()
            if self.peek() == ",":
                self._skip_comma(closing)
            elif self.peek() in ("]", "}", "") and self.peek() != closing:
                raise never_closed
            elif self.peek() != closing:
                before = max(self.text.rfind("\n", 0, end) + 1, end - 1)
                raise _Stop(before, end, "a comma is missing after this value", "write `,`")
        self.at += 1

    def _skip_comma(self, closing: str) -> None:
        comma = self.at
        self.at += 1
        self.skip()
        if self.peek() == closing:
            message = f"the comma before `{closing}` is one too many"
            self.faults.append(Fault("lenient", comma, comma + 1, message, "remove it"))

    def _key(self) -> Scalar:
        if self.peek() == '"':
            return self._string()
        word = _WORD.match(self.text, self.at)
        start, end = (self.at, self.at + 1) if word is None else word.span()
        shown = self.text[start:end]
        raise _Stop(start, end, f"`{shown}` is not a key: keys are in double quotes", 'write `"key": …`')

    def _string(self) -> Scalar:
        match = _STRING.match(self.text, self.at)
        if match is None:
            line_end = self.text.find("\n", self.at)
            end = line_end if line_end >= 0 else len(self.text)
            message = "this text does not end on its line, or has an unknown escape after `\\`"
            raise _Stop(self.at, end, message, 'close it with `"`, and write `\\\\` for a backslash')
        self.at = match.end()
        return Scalar(self.source, match.start(), match.end(), json.loads(match.group()), '"')

    def _plain(self) -> Scalar:
        word = _WORD.match(self.text, self.at)
        if word is None:
            raise self._no_value()
        text, (start, end) = word.group(), word.span()
        if text in ("true", "false", "null"):
            tag = "!!null" if text == "null" else "!!bool"
        elif _INTEGER.fullmatch(text):
            tag = "!!int"
        elif _NUMBER.fullmatch(text):
            tag = "!!float"
        elif text in _PYTHON:
            raise _Stop(start, end, f"`{text}` is Python, not JSON", f"write `{_PYTHON[text]}`")
        else:
            message = f"`{text}` is not a JSON value"
            raise _Stop(start, end, message, "write a number, true, false, null, or a text in double quotes")
        self.at = end
        return Scalar(self.source, start, end, text, "", tag)

    def _no_value(self) -> _Stop:
        if self.at == len(self.text):
            return _Stop(self.at, self.at, "the file ends where a value is expected", "write the value")
        shown = self.peek()
        if shown == "'":
            return _Stop(self.at, self.at + 1, "text is in double quotes, not in single quotes", 'write `"`')
        return _Stop(self.at, self.at + 1, f"a value is expected, not `{shown}`", "write the value")

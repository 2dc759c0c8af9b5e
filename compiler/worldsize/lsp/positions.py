"""Converts positions of the protocol, and finds the expression or the code that stands at one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from lsprotocol import types
from msgspec import Struct

from worldsize.azureml.binding import Expression, make_expression
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.base.wording import count_equal

_EXPRESSION = re.compile(r"\$\{\{[ \t]{0,80}(?P<name>[^\s{}]{1,400})[ \t]{0,80}\}\}")
_CODES = re.compile(
    r"#[ \t]{0,20}worldsize[ \t]{0,20}:[ \t]{0,20}ignore[ \t]{0,20}\[(?P<codes>[^\]\n]{0,400})\]"
)
_WORD = re.compile(r"[\w-]+")


class Positions(Struct, frozen=True):
    """Conversions in the units that client and server agreed on; ``utf-16`` is the default."""

    encoding: str = "utf-16"

    def count_units(self, text: str) -> int:
        """The length of a text in code units."""
        if text.isascii() or self.encoding == "utf-32":
            return len(text)
        if self.encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text.encode("utf-16-le", "surrogatepass")) // 2

    def to_position(self, source: Source, offset: int) -> types.Position:
        """The position of an offset in a text."""
        line, column = source.position(offset)
        before = source.text[offset - column + 1 : offset]
        return types.Position(line - 1, self.count_units(before))

    def to_offset(self, source: Source, position: types.Position) -> int:
        """The offset of a position; one past the end of its line or of the text is moved back to it."""
        start = source.offset(position.line + 1, 1)
        line = source.line(position.line + 1)
        if line.isascii() or self.encoding == "utf-32":
            return start + min(position.character, len(line))
        units = 0
        for index, character in enumerate(line):
            if units >= position.character:
                return start + index
            units += self.count_units(character)
        return start + len(line)

    def to_range(self, source: Source, start: int, end: int) -> types.Range:
        """The range of ``text[start:end]``."""
        return types.Range(self.to_position(source, start), self.to_position(source, max(start, end)))

    def span_to_range(self, source: Source | None, span: Span) -> types.Range:
        """The range of a span; without the text of its file every character counts one unit."""
        if source is None:
            return types.Range(
                types.Position(span.line - 1, span.column - 1),
                types.Position(span.end_line - 1, span.end_column - 1),
            )
        return self.to_range(
            source, source.offset(span.line, span.column), source.offset(span.end_line, span.end_column)
        )


def find_difference(before: str, after: str) -> tuple[int, int, str]:
    """The smallest single replacement that turns one text into the other: start, end and the new text."""
    start = count_equal(before, after)
    tail = count_equal(before[start:][::-1], after[start:][::-1])
    return start, len(before) - tail, after[start : len(after) - tail]


def find_line(text: str, offset: int) -> tuple[int, int]:
    """Start and end of the line of an offset."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    return start, len(text) if end < 0 else end


def find_expression(text: str, offset: int) -> tuple[Expression, int] | None:
    """The ``${{…}}`` around an offset, and the index of its dotted part there."""
    for expression in list_expressions(text, *find_line(text, offset)):
        if expression.start <= offset <= expression.end:
            position = min(max(offset - expression.name_start, 0), len(expression.name))
            return expression, expression.name.count(".", 0, position)
    return None


def find_code(text: str, offset: int) -> re.Match[str] | None:
    """The code in ``# worldsize: ignore[…]`` at an offset."""
    for match in _CODES.finditer(text, *find_line(text, offset)):
        for word in _WORD.finditer(text, *match.span("codes")):
            if word.start() <= offset <= word.end():
                return word
    return None


def list_expressions(text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[Expression]:
    """All ``${{…}}`` of a text, or of a part of it."""
    for match in _EXPRESSION.finditer(text, start, end):
        yield make_expression(match["name"], match.start(), match.end(), match.start("name"))

"""A file's text with the arithmetic between offsets and line/column positions."""

from __future__ import annotations

import re
from bisect import bisect_right

from msgspec import Struct

from worldsize.base.span import Span

_LINE_END = re.compile(r"\r\n|\r|\n")


class Source(Struct, eq=False):
    """The decoded text of one file (without a byte order mark) and the name it is shown under."""

    path: str
    text: str
    _starts: list[int] | None = None
    _last: tuple[int, str] = (0, "")

    def __repr__(self) -> str:
        return f"Source({self.path!r})"  # every node refers to it, and its text is long

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.text))]
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a 0-based offset."""
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """The span of the half-open range ``text[start:end]``."""
        line, column = self.position(start)
        length, starts = max(end - start, 0), self._line_starts()
        if line == len(starts) or start + length < starts[line]:  # nearly all are of one line
            return Span(self.path, line, column, line, column + length)
        return Span(self.path, line, column, *self.position(start + length))

    def offset(self, line: int, column: int) -> int:
        """The 0-based offset of a 1-based position, clamped to the text."""
        starts = self._line_starts()
        if line > len(starts):
            return len(self.text)
        return min(starts[line - 1] + column - 1, len(self.text))

    def text_under(self, span: Span) -> str:
        """The part of a span that is on its first line."""
        line = self.line(span.line)
        return line[span.column - 1 : span.end_column - 1 if span.end_line == span.line else len(line)]

    def line(self, number: int) -> str:
        """The text of a 1-based line without its line end; empty past the last line."""
        starts = self._line_starts()
        if not 1 <= number <= len(starts):
            return ""
        if self._last[0] != number:  # a long line can have many diagnostics
            end = starts[number] if number < len(starts) else len(self.text)
            self._last = (number, self.text[starts[number - 1] : end].rstrip("\r\n"))
        return self._last[1]

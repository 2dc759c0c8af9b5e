"""The position of a piece of text in a file, which every diagnostic points at."""

from __future__ import annotations

from msgspec import Struct


class Span(Struct, frozen=True, order=True):
    """A half-open range of text in one file.

    Lines and columns count from 1; columns count Unicode code points, as editors do.
    ``end_line``/``end_column`` name the first position *after* the text, so a one-character
    token at the start of a file is ``Span(path, 1, 1, 1, 2)``.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


NOWHERE = Span("", 1, 1, 1, 1)  # of what no file says

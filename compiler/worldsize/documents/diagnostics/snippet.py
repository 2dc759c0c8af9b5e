"""Source lines in a terminal: paths, unprintable characters, and a caret under a node."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping

from worldsize.base.source import Source
from worldsize.base.span import Span

_TAB = 4
_WIDEST = 120  # characters of a source line that are shown


def flatten(text: str) -> str:
    """Replace control and direction-changing characters by a visible mark."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char for char in text)


def terminal_width(text: str) -> int:
    """The terminal columns of a text without control characters."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def draw_line(line: str, span: Span) -> tuple[str, int, int]:
    """Render a source line and find the columns to underline: the part of the span on its first line.

    Returns:
        The shown line, the 0-based terminal column of the underline and its length (at least 1).
    """
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    end = max(end, start + 1)
    line, start, end = _cut(line, start, end)
    before, marked, after = line[:start], line[start:end], line[end:]
    shown_before = flatten(_expand(before, 0))
    column = terminal_width(shown_before)
    shown_marked = flatten(_expand(marked, column))
    shown_after = flatten(_expand(after, column + terminal_width(shown_marked)))
    return (shown_before + shown_marked + shown_after).rstrip(), column, max(1, terminal_width(shown_marked))


def _expand(text: str, column: int) -> str:
    if "\t" not in text:
        return text
    shown: list[str] = []
    for char in text:
        piece = " " * (_TAB - column % _TAB) if char == "\t" else char
        shown.append(piece)
        column += terminal_width(piece)
    return "".join(shown)


def _cut(line: str, start: int, end: int) -> tuple[str, int, int]:
    """Cut a long line to a window around the underline; ``…`` marks the cut ends."""
    if len(line) <= _WIDEST:
        return line, start, end
    low = 0 if end <= _WIDEST else max(0, start - _WIDEST // 3)
    high = low + _WIDEST
    window = line[low:high]
    if high < len(line):
        window = window[:-1] + "…"
    if low > 0:
        window = "…" + window[1:]
    return window, start - low, min(end, high) - low


Sources = Mapping[str, Source]


def show_path(path: str) -> str:
    """``path`` relative to the working folder, with forward slashes.

    A path on another drive stays absolute, and a command-line option such as ``--kill`` is not changed.
    """
    if path.startswith("--"):
        return path
    try:
        relative = os.path.relpath(path)
    except ValueError:
        relative = path
    return relative.replace(os.sep, "/")


def read_line(sources: Sources, path: str, line: int) -> str | None:
    """The text of one line, or None if the text of the file is not available."""
    source = sources.get(path)
    if source is None or not source.text:
        return None
    return source.line(line)

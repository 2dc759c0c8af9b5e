"""Sentences on a terminal: broken between words, where the terminal itself would break inside of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TextIO

from worldsize.documents.diagnostics.snippet import terminal_width
from worldsize.documents.diagnostics.text import is_terminal

NARROWEST = 20  # columns; below, words cannot be kept whole


def wrap_words(text: str, width: int) -> str:
    """Break lines longer than ``width`` at blanks; what follows is indented as the line is, and two more.

    A word that is longer than a line, such as a path, stays whole, so that it can be copied.
    """
    if width < NARROWEST:
        return text
    return "\n".join(part for line in text.split("\n") for part in _wrap_line(line, width))


def _wrap_line(line: str, width: int) -> Iterator[str]:
    indentation = line[: len(line) - len(line.lstrip(" "))] + "  "
    while terminal_width(line) > width:
        at = _find_blank(line, width, len(indentation))
        if at < 0:
            break
        yield line[:at].rstrip(" ")
        line = indentation + line[at:].lstrip(" ")
    yield line


def _find_blank(line: str, width: int, start: int) -> int:
    """The last blank before which a line fits, else the first after it; -1 without one."""
    at, used = -1, terminal_width(line[:start])
    for index in range(start, len(line)):
        if line[index] == " " and line[index:].strip(" "):
            if used > width:
                return index if at < 0 else at
            at = index
        used += terminal_width(line[index])
    return at


def wrap_for(stream: TextIO, text: str) -> str:
    """The text for a stream: wrapped to the width of a terminal, unchanged anywhere else."""
    if not is_terminal(stream):
        return text
    try:
        return wrap_words(text, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):  # a stream without a descriptor, a terminal without a size
        return text

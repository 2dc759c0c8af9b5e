"""What a word of a document refers to: an expression, a code in a comment, a key or a value."""

from __future__ import annotations

import re
from typing import NamedTuple

from worldsize.azureml.binding import Expression

_EXPRESSION = re.compile(r"\$\{\{[ \t]{0,80}(?P<name>[^\s{}]{1,400})[ \t]{0,80}\}\}")
_CODES = re.compile(
    r"#[ \t]{0,20}worldsize[ \t]{0,20}:[ \t]{0,20}ignore[ \t]{0,20}\[(?P<codes>[^\]\n]{0,400})\]"
)
_WORD = re.compile(r"[\w-]+")


class Place(NamedTuple):
    """A word with its range in the text."""

    text: str
    start: int
    end: int


def find_line(text: str, offset: int) -> tuple[int, int]:
    """Start and end of the line of an offset."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    return start, len(text) if end < 0 else end


def find_expression(text: str, offset: int) -> tuple[Expression, int] | None:
    """The ``${{…}}`` around an offset, and the index of its dotted part there."""
    start, end = find_line(text, offset)
    for match in _EXPRESSION.finditer(text, start, end):
        if match.start() <= offset <= match.end():
            expression = Expression(match["name"], match.start(), match.end(), match.start("name"))
            position = min(max(offset, match.start("name")), match.end("name"))
            return expression, match["name"].count(".", 0, position - match.start("name"))
    return None


def find_code(text: str, offset: int) -> Place | None:
    """The code in ``# worldsize: ignore[…]`` at an offset."""
    start, end = find_line(text, offset)
    for match in _CODES.finditer(text, start, end):
        for word in _WORD.finditer(text, *match.span("codes")):
            if word.start() <= offset <= word.end():
                return Place(word.group(), *word.span())
    return None


def list_expressions(text: str) -> list[Expression]:
    """All ``${{…}}`` of a text."""
    return [
        Expression(match["name"], match.start(), match.end(), match.start("name"))
        for match in _EXPRESSION.finditer(text)
    ]

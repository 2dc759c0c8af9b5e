"""Explains the syntax errors of PyYAML and libyaml, with what to write instead."""

from __future__ import annotations

from typing import Any

from worldsize.base.problem import Problem
from worldsize.base.source import Source

# Part of the parser's message -> what to write. The first match wins.
_HELP = (
    ("mapping values are not allowed", "quote a value that contains `: `, or check the indentation"),
    (
        "cannot start any token",
        "indent with spaces, and quote values that start with a tab, `@` or a back-tick",
    ),
    ("could not find expected ':'", "write `key: value`, with a space after the colon"),
    ("did not find expected ',' or", "close the bracket or brace, or separate the items with `,`"),
    ("did not find expected key", "check the indentation of this line against the one above"),
    ("did not find expected '-' indicator", "line this up with the `-` of the items above"),
    ("expected <block end>", "check the indentation of this line against the one above"),
    ("block sequence entries are not allowed", "start the list on its own line"),
    ("unexpected end of stream", "close the quote"),
    ("alphabetic or numeric character", "quote the text if it starts with `*` or `&`"),
    ("unknown escape character", "double the backslash, or use single quotes"),
    ("hexdecimal", "double the backslash, or use single quotes"),
    ("undefined tag handle", "quote the text if it starts with `!`"),
    ("anchor", "quote the text if it starts with `*` or `&`"),
    ("tab", "indent with spaces"),
)


def explain_syntax_error(source: Source, error: Any) -> Problem:
    """The problem of a parser error, at the position where the parser stopped."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    text = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "invalid YAML")
    text = " ".join(text.split())
    if mark is not None and "found character that" in text:
        text = text.replace("character that", f"{_shown(source.text[mark.index : mark.index + 1])} that")
    context = getattr(error, "context", None)
    message = f"not valid YAML: {text}" + (f" ({' '.join(str(context).split())})" if context else "")
    start = min(mark.index, len(source.text)) if mark is not None else 0
    start = _step_back(source.text, start)
    end = min(start + 1, len(source.text))
    span = source.span(start, end)
    help_ = next(
        (advice for words, advice in _HELP if words in text), "compare the line with the lines above"
    )
    return Problem("yaml-syntax", span, message.replace("'", "`").rstrip("."), help_)


def _shown(character: str) -> str:
    return {"\t": "a tab", "`": "a back-tick"}.get(character, f"character `{character}`")


def _step_back(text: str, offset: int) -> int:
    """Move an offset at the end of the file to the last visible character, which can be shown."""
    if offset < len(text):
        return offset
    return max(0, len(text.rstrip()) - 1)

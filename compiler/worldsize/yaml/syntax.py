"""PyYAML's and libyaml's syntax errors in words that say what to do."""

from __future__ import annotations

from typing import Any

from worldsize.base.problem import Problem
from worldsize.base.source import Source

# What the parser says -> what to write. The first entry that is contained in the message wins.
_HELP = (
    ("mapping values are not allowed", "quote a value that contains `: `, or check the indentation"),
    (
        "cannot start any token",
        "indent with spaces, and quote values that start with a tab, `@` or a back-tick",
    ),
    ("could not find expected ':'", "write `key: value`, with a space behind the colon"),
    ("did not find expected ',' or", "close the bracket or brace, or separate the items with `,`"),
    ("did not find expected key", "check the indentation of this line against the one above"),
    ("did not find expected '-' indicator", "line this up with the `-` of the items above"),
    ("expected <block end>", "check the indentation of this line against the one above"),
    ("block sequence entries are not allowed", "start the list on its own line"),
    ("unexpected end of stream", "close the quote"),
    ("alphabetic or numeric character", "quote the text if the `*` or `&` is part of it"),
    ("unknown escape character", "double the backslash, or use single quotes"),
    ("hexdecimal", "double the backslash, or use single quotes"),
    ("undefined tag handle", "quote the text if the `!` is part of it"),
    ("anchor", "quote the text if the `*` or `&` is part of it"),
    ("tab", "indent with spaces"),
)


def explain_syntax_error(source: Source, error: Any) -> Problem:
    """One problem for a parser error, at the place where the parser gave up."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    text = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "invalid YAML")
    text = " ".join(text.split())
    if mark is not None and "found character that" in text:
        text = text.replace("character that", f"{_shown(source.text[mark.index : mark.index + 1])} that")
    context = getattr(error, "context", None)
    message = f"cannot be read as YAML: {text}" + (f" ({' '.join(str(context).split())})" if context else "")
    start = min(mark.index, len(source.text)) if mark is not None else 0
    start = _step_back(source.text, start)
    end = min(start + 1, len(source.text))
    span = source.span(start, end)
    help_ = next((advice for words, advice in _HELP if words in text), "compare the line with the ones above")
    return Problem("yaml-syntax", span, message.replace("'", "`").rstrip("."), help_)


def _shown(character: str) -> str:
    return {"\t": "a tab", "`": "a back-tick"}.get(character, f"character `{character}`")


def _step_back(text: str, offset: int) -> int:
    """From the end of the file to its last visible character: there is nothing to show behind it."""
    if offset < len(text):
        return offset
    return max(0, len(text.rstrip()) - 1)

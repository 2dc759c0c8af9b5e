"""Diagnostics as GitHub workflow commands, which annotate the lines of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.diagnostics.snippet import printable
from worldsize.diagnostics.sources import shown_path

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(diagnostics: Sequence[Diagnostic]) -> str:
    """One ``::error file=…::message`` line a diagnostic."""
    return "".join(_line(diagnostic) + "\n" for diagnostic in diagnostics)


def _line(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    properties = {"file": shown_path(span.path), "line": span.line, "endLine": span.end_line}
    if span.line == span.end_line:  # GitHub refuses columns on annotations over several lines
        properties |= {"col": span.column, "endColumn": max(span.column, span.end_column - 1)}
    properties["title"] = f"{diagnostic.code} {diagnostic.slug}"
    listed = ",".join(f"{key}={_escape(str(value), extra=True)}" for key, value in properties.items())
    lines = [diagnostic.message]
    lines += [f"help: {diagnostic.help}"] if diagnostic.help else []
    return f"::{_COMMANDS[diagnostic.severity]} {listed}::{_escape(chr(10).join([*lines, diagnostic.docs]))}"


def _escape(text: str, *, extra: bool = False) -> str:
    """GitHub's own escapes: per cent and line ends everywhere, colon and comma in properties."""
    text = printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if extra else text

"""Diagnostics for people: position, message, source line with a caret, related positions, help, link."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from msgspec import Struct

from worldsize.base.problem import Related
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.diagnostics.diagnostic import Diagnostic, count_severities
from worldsize.diagnostics.snippet import Sources, draw_line, flatten, read_line, show_path

_COLOURS = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "info": "\x1b[1;36m",
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
}
_RESET = "\x1b[0m"


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that understands control sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_colour(stream: TextIO) -> bool:
    """Whether to write colours to a stream: ``NO_COLOR`` wins, then ``FORCE_COLOR``, then the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal(stream)


def render_text(
    diagnostics: Sequence[Diagnostic], sources: Sources, *, files: int, colour: bool = False, fixed: int = 0
) -> str:
    """Render the whole report; its last line counts the findings."""
    blocks = [render_diagnostic(diagnostic, sources, colour=colour) for diagnostic in diagnostics]
    return "\n".join([*blocks, summarise_counts(diagnostics, files, fixed), ""])


def render_diagnostic(diagnostic: Diagnostic, sources: Sources, *, colour: bool = False) -> str:
    """Render one diagnostic as a block of lines that ends in a line break."""
    span = diagnostic.span
    lines_named = [span.line, *(related.span.line for related in diagnostic.related)]
    style = _Style(colour, len(str(max(lines_named))))
    label = style.paint(diagnostic.severity, f"{diagnostic.severity}[{diagnostic.code}]")
    place = style.paint("bold", f"{_format_position(span)}:")
    lines = [f"{place} {label} {style.paint('bold', flatten(diagnostic.message))}"]
    lines += _excerpt(Related(span, ""), sources, style, "^", diagnostic.severity)
    for related in diagnostic.related:
        if related.span.path != span.path:
            lines.append(style.note("::", _format_position(related.span)))
        excerpt = _excerpt(related, sources, style, "-", "info")
        same_line = (related.span.path, related.span.line) == (span.path, span.line)
        lines += excerpt[-1:] if same_line else excerpt  # the source line is shown already
    if diagnostic.help:
        lines.append(style.note("=", f"{style.paint('bold', 'help:')} {flatten(diagnostic.help)}"))
    lines.append(style.note("=", f"docs: {diagnostic.docs}"))
    return "\n".join(lines) + "\n"


def _format_position(span: Span) -> str:
    return f"{flatten(show_path(span.path))}:{span.line}:{span.column}"


def summarise_counts(diagnostics: Sequence[Diagnostic], files: int, fixed: int = 0) -> str:
    """``2 errors, 1 warning in 3 files, fixed 4``."""
    totals = count_severities(diagnostics)
    parts = [plural(number, severity) for severity, number in totals.items() if number and severity != "info"]
    if totals["info"]:
        parts.append(plural(totals["info"], "note"))
    return (
        f"{', '.join(parts) or 'nothing found'} in {plural(files, 'file')}{f', fixed {fixed}' * bool(fixed)}"
    )


class _Style(Struct, frozen=True):
    """The layout of one diagnostic: whether it is coloured, and the width of the line numbers."""

    colour: bool
    gutter: int

    def paint(self, name: str, text: str) -> str:
        return f"{_COLOURS[name]}{text}{_RESET}" if self.colour else text

    def note(self, sign: str, text: str) -> str:
        return f"{' ' * self.gutter} {self.paint('dim', sign)} {text}"


def _excerpt(related: Related, sources: Sources, style: _Style, mark: str, name: str) -> list[str]:
    """The source line with its number, and the underline with its label."""
    line = read_line(sources, related.span.path, related.span.line)
    label = flatten(related.message)
    if line is None:
        return [style.note("=", label)] if label else []
    shown, column, length = draw_line(line, related.span)
    underline = style.paint(name, mark * length + (f" {label}" if label else ""))
    number = style.paint("dim", f"{related.span.line:>{style.gutter}}")
    source = f"{number} {style.paint('dim', '|')} {shown}".rstrip()
    return [style.note("|", "").rstrip(), source, style.note("|", " " * column + underline)]

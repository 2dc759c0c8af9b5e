"""Diagnostics for people: position, message, source line with a caret, related positions, help, link."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

from msgspec import Struct

from worldsize.base.problem import Related
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.documents.diagnostics.diagnostic import SEVERITIES, Diagnostic, count_severities
from worldsize.documents.diagnostics.snippet import (
    Sources,
    draw_line,
    flatten,
    read_line,
    show_path,
    terminal_width,
)

_COLOURS = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "info": "\x1b[1;36m",
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
}
_RESET = "\x1b[0m"
_SAME = 5  # findings of one rule in one file that are shown; the rest are counted
_SCREEN = 50  # lines, above which a table of the rules follows


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that understands control sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_colour(stream: TextIO) -> bool:
    """Whether to write colours to a stream: ``NO_COLOR`` wins, then ``FORCE_COLOR``, then the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal(stream)


def render_text(diagnostics: Sequence[Diagnostic], sources: Sources, *, colour: bool = False) -> str:
    """Render all findings in full; the last line counts them and their files."""
    blocks = [render_diagnostic(diagnostic, sources, colour=colour) for diagnostic in diagnostics]
    files = {diagnostic.span.path for diagnostic in diagnostics}
    return "\n".join([*blocks, summarise_counts(diagnostics, len(files)), ""])


def render_short(
    diagnostics: Sequence[Diagnostic],
    shown: Sequence[Diagnostic],
    sources: Sources,
    summary: str,
    *,
    colour: bool = False,
) -> str:
    """Render what fits a reader: the first findings of each rule in a file, and a table of many.

    ``diagnostics`` are all findings; those that are not ``shown`` are only counted.
    """
    counts = Counter((diagnostic.span.path, diagnostic.code) for diagnostic in shown)
    met: Counter[tuple[str, str]] = Counter()
    blocks: list[str] = []
    for diagnostic in shown:
        key = (diagnostic.span.path, diagnostic.code)
        met[key] += 1
        if met[key] <= _SAME:
            blocks.append(render_diagnostic(diagnostic, sources, colour=colour))
        if met[key] == _SAME < counts[key]:
            blocks.append(f"… and {counts[key] - _SAME} more of {diagnostic.code} in this file\n")
    repeated = len(diagnostics) > len({diagnostic.code for diagnostic in diagnostics})
    if repeated and sum(block.count("\n") + 1 for block in blocks) > _SCREEN:
        blocks.append(render_table(diagnostics))
    hints = _hints(diagnostics, len(shown), capped=any(count > _SAME for count in counts.values()))
    return "\n".join([*blocks, *hints, summary])


def render_concise(
    diagnostics: Sequence[Diagnostic], shown: Sequence[Diagnostic], summary: str, *, colour: bool = False
) -> str:
    """Render one line for each finding that is shown; ``[*]`` marks those with a safe fix."""
    style = _Style(colour, 0)
    lines = [
        _render_headline(
            diagnostic, style, _format_position(diagnostic.span), " [*]" * (diagnostic.fix_safety == "safe")
        )
        for diagnostic in shown
    ]
    return "\n".join([*lines, *_hints(diagnostics, len(shown), capped=False), summary])


def render_statistics(
    diagnostics: Sequence[Diagnostic], *, files: int, fixed: int = 0, known: int = 0
) -> str:
    """Render a table of the rules in place of the findings."""
    return f"{render_table(diagnostics)}{summarise_counts(diagnostics, files, fixed, known)}\n"


def render_table(diagnostics: Sequence[Diagnostic]) -> str:
    """How often each rule was met, the most frequent first."""
    counts = Counter((diagnostic.code, diagnostic.severity, diagnostic.slug) for diagnostic in diagnostics)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    width = len(str(rows[0][1])) if rows else 0
    severity_width = max(map(len, SEVERITIES))
    return "".join(
        f"{count:>{width}}  {code}  {severity:<{severity_width}}  {slug}\n"
        for (code, severity, slug), count in rows
    )


def _hints(diagnostics: Sequence[Diagnostic], shown: int, *, capped: bool) -> Iterator[str]:
    """How to see what is not shown, and what can be fixed."""
    if capped:
        yield "`--format concise` lists every finding in one line"
    if shown < len(diagnostics):
        more = len(diagnostics) - shown
        yield f"{plural(more, 'note')} not shown: `--min-severity info` shows {'it' if more == 1 else 'them'}"
    safety = Counter(diagnostic.fix_safety for diagnostic in diagnostics)
    options = {"safe": "--fix", "unsafe": "--unsafe-fixes"}
    fixes = [
        f"{safety[kind]} {kind} fix{'es' * (safety[kind] != 1)} (`{option}`)"
        for kind, option in options.items()
        if safety[kind]
    ]
    if fixes:
        yield ", ".join(fixes)


def render_diagnostic(diagnostic: Diagnostic, sources: Sources, *, colour: bool = False) -> str:
    """Render one diagnostic as a block of lines that ends in a line break."""
    span = diagnostic.span
    lines_named = [span.line, *(related.span.line for related in diagnostic.related)]
    style = _Style(colour, len(str(max(lines_named))))
    is_shown = read_line(sources, span.path, span.line) is not None
    place = _format_position(span) if diagnostic.code or is_shown else flatten(show_path(span.path))
    lines = [_render_headline(diagnostic, style, place)]
    lines += _excerpt(Related(span, ""), sources, style, "^", diagnostic.severity)
    for related in diagnostic.related:
        if related.span.path != span.path:
            lines.append(style.note("::", _format_position(related.span)))
        excerpt = _excerpt(related, sources, style, "-", "info")
        same_line = (related.span.path, related.span.line) == (span.path, span.line)
        lines += excerpt[-1:] if same_line else excerpt  # the source line is shown already
    # The help of a run that is refused may quote what another program wrote.
    for number, line in enumerate((diagnostic.help or "").splitlines()):
        label = "     " if number else style.paint("bold", "help:")
        lines.append(style.note(" " if number else "=", f"{label} {flatten(line)}"))
    if diagnostic.docs:
        lines.append(style.note("=", f"docs: {diagnostic.docs}"))
    if diagnostic.confidence != "certain":
        lines.append(style.note("=", f"confidence: {diagnostic.confidence}"))
    return "\n".join(lines) + "\n"


def _render_headline(diagnostic: Diagnostic, style: _Style, place: str, mark: str = "") -> str:
    code = f"[{diagnostic.code}]" if diagnostic.code else ":"  # a message without a rule has no code
    label = style.paint(diagnostic.severity, f"{diagnostic.severity}{code}")
    message = style.paint("bold", flatten(diagnostic.message))
    return f"{style.paint('bold', f'{place}:')} {label}{mark} {message}"


def _format_position(span: Span) -> str:
    return f"{flatten(show_path(span.path))}:{span.line}:{span.column}"


def summarise_counts(diagnostics: Sequence[Diagnostic], files: int, fixed: int = 0, known: int = 0) -> str:
    """``2 errors, 1 warning in 3 files, fixed 4, 65 known``, which a baseline has."""
    totals = count_severities(diagnostics)
    parts = [plural(number, severity) for severity, number in totals.items() if number and severity != "info"]
    if totals["info"]:
        parts.append(plural(totals["info"], "note"))
    summary = ", ".join(parts) or ("nothing new" if known else "nothing found")
    rest = f"{f', fixed {fixed}' * bool(fixed)}{f', {known} known' * bool(known)}"
    return f"{summary} in {plural(files, 'file')}{rest}"


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

"""``# worldsize: ignore[WS203] reason`` suppresses a code on its line, or on the line below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct, field

from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.yaml.load import Comment

_MARK = re.compile(r"#\s*worldsize\s*:(?P<rest>.*)")
_IGNORE = re.compile(r"\s*ignore\s*\[(?P<codes>[^\]]*)\]")
_WORD = re.compile(r"[^\s,]+")
UNSUPPRESSABLE = frozenset({"WS000", "internal-error"})


class Suppression(Struct):
    """One code (or slug) of one comment."""

    name: str
    span: Span  # of the name inside the comment
    line: int  # where a diagnostic must start to be suppressed
    used: bool = field(default=False)


def parse_suppressions(
    comments: Sequence[Comment], is_known: Callable[[str], bool], names: Callable[[], Collection[str]]
) -> tuple[list[Suppression], list[Problem]]:
    """Parse the suppressions of one file, and report comments that look like one but have no effect.

    ``is_known`` says whether a word is a code or slug; ``names`` lists them all for the suggestion.
    """
    below = _find_lines_below(comments)
    suppressions: list[Suppression] = []
    problems: list[Problem] = []
    for comment in comments:
        mark = _MARK.match(comment.text)
        if mark is None:
            continue
        ignore = _IGNORE.match(mark["rest"])
        words = list(_WORD.finditer(ignore["codes"])) if ignore else []
        if ignore is None or not words:
            message = "this comment suppresses nothing: it names no code"
            help_ = "name the code of a rule: `# worldsize: ignore[WS203] reason`"
            problems.append(Problem("suppression-unknown", comment.span, message, help_))
            continue
        line = below.get(comment.span.line, comment.span.line)
        offset = mark.start("rest") + ignore.start("codes")
        for word in words:
            span = _subspan(comment, offset + word.start(), offset + word.end())
            if len(problems) >= limits.FOUND and not is_known(word.group()):
                continue
            problem = _report_unusable(word.group(), span, is_known, names)
            if problem is None:
                suppressions.append(Suppression(word.group(), span, line))
            else:
                problems.append(problem)
    return suppressions, problems


def apply_suppressions(
    diagnostics: Iterable[Diagnostic], suppressions: dict[str, list[Suppression]]
) -> list[Diagnostic]:
    """The diagnostics that no comment suppresses. Marks the suppressions that are used."""
    kept = []
    by_line: dict[tuple[str, int, str], list[Suppression]] = {}
    for path, file_suppressions in suppressions.items():
        for suppression in file_suppressions:
            by_line.setdefault((path, suppression.line, suppression.name), []).append(suppression)
    for diagnostic in diagnostics:
        path, line = diagnostic.span.path, diagnostic.span.line
        matching = [
            suppression
            for name in (diagnostic.code, diagnostic.slug)
            for suppression in by_line.get((path, line, name), ())
        ]
        for suppression in matching:
            suppression.used = True
        if not matching or diagnostic.code in UNSUPPRESSABLE:
            kept.append(diagnostic)
    return kept


def report_unused(suppressions: Iterable[Suppression], judged: Callable[[str], bool]) -> list[Problem]:
    """Report each suppression that suppressed nothing, among the codes that were checked."""
    return [
        Problem(
            "suppression-unused",
            suppression.span,
            f"`{suppression.name}` suppresses nothing here",
            "remove the comment, or move it to the line of the diagnostic",
        )
        for suppression in suppressions
        if not suppression.used and judged(suppression.name)
    ]


def _find_lines_below(comments: Sequence[Comment]) -> dict[int, int]:
    """For the line of each comment on its own line, the next line of content, which it applies to."""
    next_line: dict[int, int] = {}
    for line in sorted((comment.span.line for comment in comments if comment.own_line), reverse=True):
        next_line[line] = next_line.get(line + 1, line + 1)
    return next_line


def _subspan(comment: Comment, start: int, end: int) -> Span:
    span = comment.span
    return Span(span.path, span.line, span.column + start, span.line, span.column + end)


def _report_unusable(
    word: str, span: Span, is_known: Callable[[str], bool], names: Callable[[], Collection[str]]
) -> Problem | None:
    if word in UNSUPPRESSABLE:
        message = f"`{word}` cannot be suppressed: it is an error in worldsize itself"
        return Problem("suppression-unknown", span, message, "remove the comment and report the error")
    if is_known(word):
        return None
    usable = [name for name in names() if name not in UNSUPPRESSABLE]
    near = None if word[-1:].isdigit() else did_you_mean(word, usable)  # a code is not guessed
    help_ = near or "`worldsize explain` lists all codes"
    return Problem("suppression-unknown", span, f"`{word}` is not the code of a rule", help_)

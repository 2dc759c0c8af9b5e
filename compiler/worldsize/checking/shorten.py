"""Shortens a report in which a file has the same fault a thousand times, or a thousand faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.documents.diagnostics.diagnostic import SEVERITIES, Diagnostic, sort_unique
from worldsize.rules import engine

if TYPE_CHECKING:
    from worldsize.checking.choice import Wanted

_HELP = "fix what is listed and check again"


def cap_repeats(diagnostics: Sequence[Diagnostic], wanted: Wanted) -> list[Diagnostic]:
    """The first findings of each rule in each file, and a note that counts the rest.

    Of a file that still has too many findings, the most severe are kept.
    """
    if len(diagnostics) <= limits.SAME:
        return list(diagnostics)
    counts: Counter[tuple[str, str]] = Counter()
    kept: dict[str, list[Diagnostic]] = {}
    last: dict[tuple[str, str], Diagnostic] = {}
    for each in diagnostics:
        key = (each.span.path, each.code)
        counts[key] += 1
        if counts[key] <= limits.SAME:
            kept.setdefault(each.span.path, []).append(each)
            last[key] = each
    notes = list(_notes(counts, last))
    listed: list[Diagnostic] = []
    for findings in kept.values():
        most_severe = _select_most_severe(findings, limits.LISTED)
        if len(most_severe) < len(findings):
            left_out = len(findings) - len(most_severe)
            message = f"{left_out:,} more findings of several rules in this file are not listed"
            notes.append(Problem("findings-left-out", most_severe[-1].span, message, _HELP))
        listed += most_severe
    return sort_unique([*listed, *(note for note in engine.diagnose(notes) if wanted(note.code))])


def cap_report(diagnostics: Sequence[Diagnostic], wanted: Wanted) -> list[Diagnostic]:
    """The most severe findings of a whole check, and one more that counts the rest."""
    kept = _select_most_severe(diagnostics, limits.REPORTED)
    if len(kept) == len(diagnostics):
        return kept
    listed = {each.span.path for each in kept}
    left = {each.span.path for each in diagnostics} - listed
    files = f", among them all of {len(left):,} files," if left else ""
    message = f"{len(diagnostics) - len(kept):,} more findings{files} are not listed"
    note = Problem("findings-left-out", kept[-1].span, message, _HELP)
    return sort_unique([*kept, *(each for each in engine.diagnose([note]) if wanted(each.code))])


def _select_most_severe(diagnostics: Sequence[Diagnostic], limit: int) -> list[Diagnostic]:
    """At most ``limit`` findings, errors before warnings before the rest, in their original order."""
    if len(diagnostics) <= limit:
        return list(diagnostics)
    ranked = sorted(range(len(diagnostics)), key=lambda at: (SEVERITIES.index(diagnostics[at].severity), at))
    return [diagnostics[at] for at in sorted(ranked[:limit])]


def _notes(counts: Counter[tuple[str, str]], last: dict[tuple[str, str], Diagnostic]) -> Iterator[Problem]:
    for key, count in counts.items():
        if count > limits.SAME:
            more = f"{'at least ' if count >= limits.FOUND else ''}{count - limits.SAME:,}"
            message = f"{more} more findings of `{key[1]}` in this file are not listed"
            yield Problem("findings-left-out", last[key].span, message, _HELP)

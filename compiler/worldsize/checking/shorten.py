"""Keeps a report readable where a file has the same fault a thousand times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from worldsize.diagnostics.diagnostic import Diagnostic, arrange
from worldsize.diagnostics.problem import Problem
from worldsize.rules import engine
from worldsize.yaml import limits

if TYPE_CHECKING:
    from worldsize.checking.checker import Wanted


def many(diagnostics: Sequence[Diagnostic], wanted: Wanted) -> list[Diagnostic]:
    """The first findings of each rule in each file, and for the rest one that says how many there are.

    Args:
        diagnostics: All findings, in order.
        wanted: Whether a code is reported.
    """
    if len(diagnostics) <= limits.SAME:
        return list(diagnostics)
    counts: Counter[tuple[str, str]] = Counter()
    kept: list[Diagnostic] = []
    last: dict[tuple[str, str], Diagnostic] = {}
    for each in diagnostics:
        key = (each.span.path, each.code)
        counts[key] += 1
        if counts[key] <= limits.SAME:
            kept.append(each)
            last[key] = each
    notes = engine.diagnose(_notes(counts, last))
    return arrange([*kept, *(note for note in notes if wanted(note.code))])


def _notes(counts: Counter[tuple[str, str]], last: dict[tuple[str, str], Diagnostic]) -> Iterator[Problem]:
    for key, count in counts.items():
        if count > limits.SAME:
            message = f"{count - limits.SAME:,} more findings of `{key[1]}` in this file are not listed"
            yield Problem("findings-left-out", last[key].span, message, "mend what is listed and check again")

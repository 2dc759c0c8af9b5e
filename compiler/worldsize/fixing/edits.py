"""Fixes as edits of a text: which of them can be made together, and that nothing else changes.

A fix replaces the text under a span, so comments and layout stay as they are. Every edit is verified
by reading the result: the same values must stand around it, or the edit is not made.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from worldsize import yaml
from worldsize.base.problem import Fix
from worldsize.yaml import Document, Mapping, Node
from worldsize.yaml import Sequence as SequenceNode

_QUOTES = "'\""


class Edit(NamedTuple):
    """A replacement of ``text[start:end]``."""

    start: int
    end: int
    text: str


def apply_fixes(document: Document, fixes: Iterable[Fix]) -> tuple[str, int]:
    """A document's text with as many of the fixes as can be made.

    Of two that overlap the one that starts first is made; the other one has its turn when the
    result is checked again.

    Args:
        document: The file as it was checked.
        fixes: Fixes whose spans lie in it.

    Returns:
        The text and the number of edits in it. A file that cannot be read is left alone.
    """
    if document.root is None:
        return document.text, 0
    edits = _drop_overlaps(_select_edits(document, fixes))
    changed = _apply_edits(document.text, edits)
    if _is_sound(document, edits, changed):
        return changed, len(edits)
    kept: list[Edit] = []
    for edit in edits:  # one of them spoils the rest: find out which
        if _is_sound(document, [*kept, edit], _apply_edits(document.text, [*kept, edit])):
            kept.append(edit)
    return _apply_edits(document.text, kept), len(kept)


def _select_edits(document: Document, fixes: Iterable[Fix]) -> list[Edit]:
    """The fixes that touch one line and no value that aliases repeat elsewhere, in the order of the text."""
    assert document.root is not None
    source, shared = document.source, _find_shared_ranges(document.root)
    found = set()
    for fix in fixes:
        span = fix.span
        if span.line != span.end_line or os.path.realpath(span.path) != os.path.realpath(document.path):
            continue
        start, end = source.offset(span.line, span.column), source.offset(span.end_line, span.end_column)
        if not any(first <= start < last for first, last in shared):
            found.add(Edit(start, end, _quote_like(source.text[start:end], fix.replacement)))
    return sorted(edit for edit in found if source.text[edit.start : edit.end] != edit.text)


def _quote_like(old: str, new: str) -> str:
    """The replacement in the quotes of what it replaces: in ``{"typ":1}`` they are needed."""
    quote = old[:1]
    if quote in _QUOTES and len(old) > 1 and old.endswith(quote) and not set(new) & {*_QUOTES, "\\"}:
        return f"{quote}{new}{quote}"
    return new


def _find_shared_ranges(root: Node) -> list[tuple[int, int]]:
    """The ranges of values that are reached on two ways: anchors with aliases."""
    met: set[int] = set()
    ranges: list[tuple[int, int]] = []
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in met:
            ranges.append((node.start, max(node.end, node.start + 1)))
            continue
        met.add(id(node))
        if isinstance(node, Mapping):
            waiting += [part for entry in node.entries for part in entry]
        elif isinstance(node, SequenceNode):
            waiting += node.items
    return ranges


def _drop_overlaps(edits: Sequence[Edit]) -> list[Edit]:
    chosen: list[Edit] = []
    for edit in edits:
        if not chosen or edit.start >= chosen[-1].end:
            chosen.append(edit)
    return chosen


def _apply_edits(text: str, edits: Sequence[Edit]) -> str:
    parts, position = [], 0
    for edit in edits:
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def _is_sound(document: Document, edits: Sequence[Edit], changed: str) -> bool:
    """Whether the changed text holds the same scalars, apart from those that were edited."""
    after = yaml.load(document.path, changed)
    if after.root is None or len(after.scalars) != len(document.scalars):
        return False
    waiting, moved = list(edits), 0
    for (start, end, _), (new_start, new_end, _) in zip(document.scalars, after.scalars, strict=True):
        while waiting and waiting[0].end <= start and waiting[0].start < start:
            moved += len(waiting[0].text) - (waiting[0].end - waiting[0].start)
            del waiting[0]
        if new_start != start + moved:
            return False
        touched = waiting and waiting[0].start < end
        if not touched and document.text[start:end] != changed[new_start:new_end]:
            return False
    return True

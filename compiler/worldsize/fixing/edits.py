"""Turns fixes into edits of a text, drops edits that conflict, and verifies the result.

A fix replaces the text under a span, so comments and layout do not change. Every edit is verified
by parsing the result: all other values must be the same, else the edit is dropped.
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
    """Apply as many fixes as possible to a document's text.

    Of two overlapping fixes the one that starts first is applied; the other one follows when the result is
    checked again.

    Args:
        document: The file as it was checked.
        fixes: Fixes whose spans are in it.

    Returns:
        The text and the number of edits. A file that cannot be parsed is not changed.
    """
    if document.root is None:
        return document.text, 0
    edits = _drop_overlaps(_select_edits(document, fixes))
    changed = _apply_edits(document.text, edits)
    if _is_sound(document, edits, changed):
        return changed, len(edits)
    kept: list[Edit] = []
    for edit in edits:  # at least one edit changes other values: drop it
        if _is_sound(document, [*kept, edit], _apply_edits(document.text, [*kept, edit])):
            kept.append(edit)
    return _apply_edits(document.text, kept), len(kept)


def _select_edits(document: Document, fixes: Iterable[Fix]) -> list[Edit]:
    """Edits for the fixes on one line that do not touch a value which aliases repeat, in order."""
    assert document.root is not None
    source, shared_ranges = document.source, _find_shared_ranges(document.root)
    edits = set()
    for fix in fixes:
        span = fix.span
        if span.line != span.end_line or os.path.realpath(span.path) != os.path.realpath(document.path):
            continue
        start, end = source.offset(span.line, span.column), source.offset(span.end_line, span.end_column)
        if not any(first <= start < last for first, last in shared_ranges):
            edits.add(Edit(start, end, _quote_like(source.text[start:end], fix.replacement)))
    return sorted(edit for edit in edits if source.text[edit.start : edit.end] != edit.text)


def _quote_like(old: str, new: str) -> str:
    """Quote the replacement as the old text is quoted: ``{"typ":1}`` needs its quotes."""
    quote = old[:1]
    if quote in _QUOTES and len(old) > 1 and old.endswith(quote) and not set(new) & {*_QUOTES, "\\"}:
        return f"{quote}{new}{quote}"
    return new


def _find_shared_ranges(root: Node) -> list[tuple[int, int]]:
    """The ranges of values that several nodes share: anchors with aliases."""
    seen: set[int] = set()
    ranges: list[tuple[int, int]] = []
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            ranges.append((node.start, max(node.end, node.start + 1)))
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            pending += [part for entry in node.entries for part in entry]
        elif isinstance(node, SequenceNode):
            pending += node.items
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
    """Whether the changed text has the same scalars, apart from the edited ones."""
    after = yaml.load(document.path, changed)
    if after.root is None or len(after.scalars) != len(document.scalars):
        return False
    pending, shift = list(edits), 0
    for (start, end, _), (new_start, new_end, _) in zip(document.scalars, after.scalars, strict=True):
        while pending and pending[0].end <= start and pending[0].start < start:
            shift += len(pending[0].text) - (pending[0].end - pending[0].start)
            del pending[0]
        if new_start != start + shift:
            return False
        touched = pending and pending[0].start < end
        if not touched and document.text[start:end] != changed[new_start:new_end]:
            return False
    return True

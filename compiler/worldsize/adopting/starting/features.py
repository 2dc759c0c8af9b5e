"""Which columns of a table are learned from, and as what: those that can be read, and why not the others."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from wsshards.errors import UserError, clip_text
from wsshards.terms import BOOLEAN, CATEGORY, DATE, NUMBER
from wssources.column_kinds import MISSING_NUMBERS, check_categories, find_kind, is_number, kind_of
from wssources.head_faults import check_has_values, check_notation
from wssources.table_plan import Head

_LONG_TEXT = 40  # characters on average, above which a text is read, not sorted into categories
_MISFITS = {NUMBER: "not a number", BOOLEAN: "neither true nor false", DATE: "not a date"}


class Feature(Struct, frozen=True):
    """What becomes of a column.

    Attributes:
        name: of the column.
        kept: whether it is learned from.
        fault: why it cannot be read as what it is, as a part of a sentence; kept, it is a category.
        is_text: whether it is a long text, which is read alone or not at all.
        incomplete: whether some rows have no value.
    """

    name: str
    kept: bool = True
    fault: str = ""
    is_text: bool = False
    incomplete: bool = False


def judge_column(head: Head, name: str, called: str) -> Feature:
    """Say what becomes of a column that is not the label."""
    values = head.values(name)
    if not name or names_row(name, values):
        return Feature(name, kept=False)
    if _is_long_text(values):
        return Feature(name, is_text=True, incomplete=any(map(is_empty, values)))
    kind = find_kind(values, cells=head.cells)
    fault = _find_fault(head, name, kind, called)
    kept = not fault or (head.cells and not all(is_missing(each, NUMBER, cells=True) for each in values))
    if kept and (fault or kind == CATEGORY):
        kept = _are_categories(head, name, called)
    incomplete = any(is_missing(each, CATEGORY if fault else kind, cells=head.cells) for each in values)
    return Feature(name, kept, fault, incomplete=incomplete)


def is_missing(value: Any, kind: str, *, cells: bool) -> bool:
    """Whether a value stands for none in a column of a kind, as the step reads it."""
    return is_empty(value) or (cells and kind != CATEGORY and value in MISSING_NUMBERS)


def is_empty(value: Any) -> bool:
    """Whether there is no value: an empty cell, null or NaN."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _find_fault(head: Head, name: str, kind: str, called: str) -> str:
    """What the step would refuse of a column, as a part of a sentence; nothing if it reads it."""
    values = head.values(name)
    try:
        check_has_values(name, values, called)
        if kind == CATEGORY:
            check_notation(name, values, called)
    except UserError as error:
        return error.message
    for value in values:
        if not is_missing(value, kind, cells=head.cells) and (wrong := _find_misfit(value, kind, head)):
            return f"column `{clip_text(name)}` of `{called}` has `{clip_text(str(value))}`, which is {wrong}"
    return ""


def _find_misfit(value: Any, kind: str, head: Head) -> str:
    if _is_nested(value):
        return "no number, text or date"
    if kind == CATEGORY:
        return "" if head.cells or isinstance(value, str) else "no text"
    if kind_of(value, cells=head.cells) != kind:
        return _MISFITS[kind]
    return "not finite" if kind == NUMBER and not math.isfinite(float(value)) else ""


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list | tuple | bytes)


def _are_categories(head: Head, name: str, called: str) -> bool:
    """Whether the texts of a column repeat, so that they are no names of rows, and not too many."""
    try:
        check_categories(name, head.values(name), sampled=not head.complete, called=called)
    except UserError:
        return False
    return True


def _is_long_text(values: Sequence[Any]) -> bool:
    texts = [each for each in values if isinstance(each, str) and each]
    return (
        bool(texts) and sum(map(len, texts)) > _LONG_TEXT * len(texts) and any(" " in each for each in texts)
    )


_WORDS = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+|#|\d+"
)  # also of `userID` and `PassengerId`
_NAMES = frozenset({"id", "ids", "uuid", "guid", "#", "no", "nr", "num", "number", "idx", "key", "pk"})
_WHOLE_NAMES = frozenset({"index", "row", "rownames", "row index", "unnamed 0", "level 0"})
_JOINED = re.compile(
    r"(?:account|client|customer|employee|item|member|order|passenger|patient|person|product|record|row|sample"
    r"|student|subject|transaction|user)s?(?:id|no|nr|number)"
)


def names_row(name: str, values: Sequence[object]) -> bool:
    """Whether a column has the name of an id or a number of rows, and another value in each row that has one.

    The values are whole numbers or words: a measurement has fractions, or repeats.
    """
    given = [str(each).strip() for each in values if each is not None and each != ""]
    if not given or len(set(given)) < len(given) or not _is_row_name(name):
        return False
    return all(map(_is_whole, given)) or not any(is_number(each) or " " in each for each in given)


def _is_row_name(name: str) -> bool:
    words = [each.lower() for each in _WORDS.findall(name)]
    joined = " ".join(words)
    return bool(words) and (
        words[-1] in _NAMES
        or words[0] in ("id", "uuid", "guid")
        or joined in _WHOLE_NAMES
        or _JOINED.fullmatch(joined) is not None
    )


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number, also as pandas writes one of a column with gaps: `7001.0`."""
    return text.removesuffix(".0").isdecimal()

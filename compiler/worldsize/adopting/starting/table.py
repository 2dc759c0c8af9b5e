"""What a table of the user's is: its columns, which of them is the label, and how it is to be read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml.model import Field
from worldsize.base.wording import quoted_list
from worldsize.data.tables import Table
from wsleaks.columns import TellingColumn, find_telling_columns
from wsmetrics.names import LARGE_SHARE
from wsshards.errors import UserError, clip_text
from wsshards.terms import BOOLEAN, CATEGORY, CLASSIFICATION, DATE, NUMBER, REGRESSION
from wssources.column_kinds import (
    MISSING_NUMBERS,
    check_categories,
    compare_as,
    find_kind,
    is_number,
    kind_of,
    settle_kind,
)
from wssources.head_faults import check_has_values, check_notation
from wssources.name_lists import join_names
from wssources.table_plan import Head
from wssources.tasks import AUTO, FEW_VALUES, LabelValues, decide_task, name_class

LABELS = ("label", "labels", "target", "targets", "y", "class", "classes", "outcome", "response")


class Settings(Struct, frozen=True):
    """Inputs of ``shard_data``, with comments that say why, and sentences about the columns.

    ``by`` is the column whose rows of one value stay in one part, if there is one.
    """

    inputs: dict[str, Field[str]]
    by: str = ""
    said: tuple[str, ...] = ()


class Label(Struct, frozen=True):
    """A column that is to be predicted, and why that one."""

    name: str
    reason: str


def find_labels(table: Table) -> list[Label]:
    """The columns that may be the label: those with the name of one, else the last that may be predicted."""
    named = [column for column in table.columns if column.strip().lower() in LABELS]
    if named:
        return [Label(column, "by its name") for column in named]
    if not table.columns:
        return []
    last = table.columns[-1]
    name = next((column for column in reversed(table.columns) if _may_be_label(table, column)), last)
    return [Label(name, "the last column" if name == last else "the last column of classes or numbers")]


def _may_be_label(table: Table, name: str) -> bool:
    """Whether a column is neither a text, a date nor the name of a row, and its values differ."""
    values = table.head.values(name)
    judged = judge_column(table.head, name, table.path.name)
    plain = judged.kept and not judged.fault and not judged.is_text
    kind = find_kind(values, cells=table.head.cells)
    return plain and kind != DATE and len({str(value) for value in values if not is_empty(value)}) > 1


def find_telling(table: Table, label: str) -> list[TellingColumn]:
    """The columns that alone tell the label, of those that would be learned from."""
    kind, _, _ = _read_labels(table, label)
    count = count_classes(table, label)
    if count is None:
        return []
    classes = count > 0
    labels = compare_as(table.head.values(label), CATEGORY if classes else kind)
    columns = {}
    for name in table.columns:
        if name != label and (feature := judge_column(table.head, name, table.path.name)).kept:
            column = table.head.values(name)
            settled = (CATEGORY, "") if feature.fault else settle_kind(column, cells=table.head.cells)
            columns[name] = compare_as(column, *settled)
    telling = find_telling_columns(columns, labels, classes=classes)
    return telling if len(telling) < len(columns) else []  # else nothing is left to learn from


def count_classes(table: Table, label: str) -> int | None:
    """The classes among the labels; 0 for numbers to predict, None where a row may have several."""
    _, _, values = _read_labels(table, label)
    chosen, sampled = _find_task(table, label).get("task"), not table.head.complete
    task = decide_task(
        chosen.value if chosen else AUTO, [values], sampled=sampled, called=label, cells=table.head.cells
    ).task
    return {CLASSIFICATION: len(values.distinct), REGRESSION: 0}.get(task)


def find_settings(table: Table, label: str, telling: Sequence[TellingColumn] = ()) -> Settings:
    """The inputs of ``shard_data`` that the values of the table ask for.

    Args:
        table: What is to be learned from.
        label: The column that is to be predicted.
        telling: Columns that alone tell the label, and are left out for it.

    Raises:
        UserError: Nothing is left to learn from.
    """
    others = (column for column in table.columns if column != label)
    judged = [judge_column(table.head, column, table.path.name) for column in others]
    reasons = {column.name: column.describe(label) for column in telling}
    judged = [
        replace(feature, kept=False, telling=reasons[feature.name]) if feature.name in reasons else feature
        for feature in judged
    ]
    if not any(feature.kept for feature in judged):  # better than nothing
        judged = [replace(feature, kept=feature.groups, groups=False) for feature in judged]
    chosen, text = _choose(judged)
    if not chosen:
        names = quoted_list([feature.name or "(no name)" for feature in judged])
        fault = f"`{table.path.name}` has no column to learn `{label}` from"
        raise UserError(
            f"{fault}: the rest, {names}, names the row or cannot be read", "give it columns of values"
        )
    inputs = _find_task(table, label)
    if not text and len(chosen) < len(judged):
        inputs["features"] = Field(join_names([feature.name for feature in chosen]), comment=_why_not(judged))
    missing = _find_missing(table, label, chosen)
    if missing:
        inputs["missing"] = Field("drop" if text else "fill", comment=missing)
    categories = [f"{feature.name}=category" for feature in chosen if feature.fault]
    if categories:
        inputs["column_types"] = Field(join_names(categories), comment="not read as dates or numbers")
    if text:
        inputs["text"] = Field(text)
    groups = [feature.name for feature in judged if feature.groups]
    by = min(groups, key=lambda name: len(set(table.head.values(name))), default="")
    return Settings(inputs, by, tuple(_say_choices(judged, chosen)))


def _choose(judged: Sequence[Feature]) -> tuple[list[Feature], str]:
    """The columns that are learned from, and the column of text if that is the one."""
    columns = [feature for feature in judged if feature.kept and not feature.is_text]
    texts = [feature for feature in judged if feature.is_text][:1]
    return (columns, "") if columns or not texts else (texts, texts[0].name)


def _read_labels(table: Table, label: str) -> tuple[str, list[Any], LabelValues]:
    """The kind of the labels, those that there are, and what these have in common."""
    cells, column = table.head.cells, table.head.values(label)
    kind = find_kind(column, cells=cells)
    present, values = (
        [value for value in column if not is_missing(value, kind, cells=cells)],
        LabelValues(label),
    )
    for value in present:
        values.add(value)
    return kind, present, values


def _find_task(table: Table, label: str) -> dict[str, Field[str]]:
    """The task, where the labels leave it open that they are numbers to predict."""
    kind, present, values = _read_labels(table, label)
    marks = len(present) < sum(not is_empty(value) for value in table.head.values(label))
    few = len(values.distinct) <= FEW_VALUES
    if kind != NUMBER or few or values.numbers < values.rows or (values.fractions and not marks):
        return {}
    which = "whole numbers" if not values.fractions else "numbers"
    return {"task": Field("regression", comment=f"more than {FEW_VALUES} {which}")}


def find_imbalance(table: Table, label: str) -> str:
    """What to say of a label that is one class in most rows, whose classes are to be weighed; else nothing.

    A class of very few rows may have none left to train on, and no weight then.
    """
    kind, present, values = _read_labels(table, label)
    counts = Counter(map(name_class, present))
    numbers = kind == NUMBER and (values.fractions > 0 or len(counts) > FEW_VALUES)
    if numbers or values.lists or len(counts) < 2 or min(counts.values()) < _FEW_ROWS:
        return ""
    [(name, rows)] = counts.most_common(1)
    if rows < LARGE_SHARE * values.rows:
        return ""
    share = f"{100 * rows / values.rows:.0f} %"
    what = f"{share} of the rows have the label `{clip_text(name)}`"
    return f"{what}: `class_weights: balanced` lets the others count as much"


def _find_missing(table: Table, label: str, chosen: Sequence[Feature]) -> str:
    """What is missing, with the number of rows that are left out; nothing if all is there."""
    rows = len(table.head.values(label))
    count = rows - len(_read_labels(table, label)[1])
    cells = any(feature.incomplete for feature in chosen)
    if not count:
        return "cells are empty" if cells else ""
    total = f"{rows:,}" if table.head.complete else f"the first {rows:,}"
    filled = "; other empty cells are filled" if cells else ""
    return f"{count:,} of {total} rows have no label, and are left out{filled}"


def _why_not(judged: Sequence[Feature]) -> str:
    names = any(feature.names_row for feature in judged)
    telling = any(feature.telling for feature in judged)
    others = any((not feature.kept and feature.fault) or feature.is_text for feature in judged)
    reasons = ["only name the row"] * names + ["alone tell the label"] * telling + ["are not read"] * others
    reasons += ["name groups of rows"] * any(feature.groups for feature in judged)
    return f"without columns that {' or '.join(reasons)}"


def _say_choices(judged: Sequence[Feature], chosen: Sequence[Feature]) -> Iterator[str]:
    """What a reader of the spec may want to correct, as sentences."""
    names = [feature.name for feature in judged if feature.name and feature.names_row]
    if names:
        what = "it only names" if len(names) == 1 else "they only name"
        yield f"left out, because {what} the row: {quoted_list(names)}"
    for feature in judged:
        if feature.is_text and feature not in chosen:
            yield f"left out, because a long text is read alone, not beside columns: `{feature.name}`"
        elif feature.telling:
            yield f"left out, because {feature.telling}; add it to `features` if it is known before the label"
        elif feature.fault:
            help_ = f"; to learn from it, {feature.help}" if feature.help and not feature.kept else ""
            yield f"{feature.fault}: it is {'read as a category' if feature.kept else 'left out'}{help_}"
        elif feature.groups:
            yield f"not learned from, because it names what several rows belong to: `{feature.name}`"


_MOST_OF_GROUP = 20  # rows on average
_FEW_ROWS = 5  # of a class, so that some of them are trained on
_LONG_TEXT = 40  # characters on average, above which a text is read, not sorted into categories
_MISFITS = {NUMBER: "not a number", BOOLEAN: "neither true nor false", DATE: "not a date"}


class Feature(Struct, frozen=True):
    """What becomes of a column.

    Attributes:
        name: of the column.
        kept: whether it is learned from.
        fault: why it cannot be read as what it is, as a part of a sentence; kept, it is a category.
        help: how to make it readable.
        groups: whether it names what several rows belong to.
        is_text: whether it is a long text, which is read alone or not at all.
        incomplete: whether some rows have no value.
        telling: that it alone tells the label, and how well, as a sentence.
    """

    name: str
    kept: bool = True
    fault: str = ""
    help: str = ""
    groups: bool = False
    is_text: bool = False
    incomplete: bool = False
    telling: str = ""

    @property
    def names_row(self) -> bool:
        """Whether it is left out as the name of a row."""
        return not (self.kept or self.fault or self.telling or self.groups)


def judge_column(head: Head, name: str, called: str) -> Feature:
    """Say what becomes of a column that is not the label."""
    values = head.values(name)
    if not name or names_row(name, values):
        return Feature(name, kept=False)
    if _names_group(name, values):
        return Feature(name, kept=False, groups=True)
    if _is_long_text(values):
        return Feature(name, is_text=True, incomplete=any(map(is_empty, values)))
    kind, form = settle_kind(values, cells=head.cells)
    if form:
        return Feature(name, incomplete=any(is_missing(value, kind, cells=head.cells) for value in values))
    fault, help_ = _find_fault(head, name, kind, called)
    kept = not fault or (head.cells and not all(is_missing(value, NUMBER, cells=True) for value in values))
    if kept and (fault or kind == CATEGORY):
        kept = _are_categories(head, name, called)
    incomplete = any(is_missing(value, CATEGORY if fault else kind, cells=head.cells) for value in values)
    return Feature(name, kept, fault, help_, incomplete=incomplete)


def is_missing(value: Any, kind: str, *, cells: bool) -> bool:
    """Whether a value of a column counts as missing, as the step reads it."""
    return is_empty(value) or (cells and kind != CATEGORY and value in MISSING_NUMBERS)


def is_empty(value: Any) -> bool:
    """Whether there is no value: an empty cell, null or NaN."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _find_fault(head: Head, name: str, kind: str, called: str) -> tuple[str, str]:
    """What the step would refuse of a column, as a clause, and what to do; nothing if it reads it."""
    values = head.values(name)
    try:
        check_has_values(name, values, called)
        if kind == CATEGORY:
            check_notation(name, values, called)
    except UserError as error:
        return error.message, error.help or ""
    present = [value for value in values if not is_missing(value, kind, cells=head.cells)]
    misfits = [(value, wrong) for value in present if (wrong := _find_misfit(value, kind, head))]
    if not misfits:
        return "", ""
    [value, wrong], count = misfits[0], f"{len(misfits):,} of {len(present):,} values"
    shown = f"`{clip_text(str(value))}`, which is {wrong}"
    return f"column `{clip_text(name)}` of `{called}` has {shown} ({count})", "correct it in the table"


def _find_misfit(value: Any, kind: str, head: Head) -> str:
    if isinstance(value, dict | list | tuple | bytes):
        return "no number, text or date"
    if kind == CATEGORY:
        return "" if head.cells or isinstance(value, str) else "no text"
    if kind_of(value, cells=head.cells) != kind:
        return _MISFITS[kind]
    return "not finite" if kind == NUMBER and not math.isfinite(float(value)) else ""


def _are_categories(head: Head, name: str, called: str) -> bool:
    """Whether the texts of a column repeat, so that they do not name rows, and are not too many."""
    try:
        check_categories(name, head.values(name), sampled=not head.complete, called=called)
    except UserError:
        return False
    return True


def _is_long_text(values: Sequence[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str) and value]
    return (
        bool(texts) and sum(map(len, texts)) > _LONG_TEXT * len(texts) and any(" " in text for text in texts)
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
    texts = _list_texts(values)
    return bool(texts) and len(set(texts)) == len(texts) and _are_names(name, texts)


def _names_group(name: str, values: Sequence[object]) -> bool:
    """Whether a column names what a few rows each belong to, such as a customer; every row has a value."""
    texts = _list_texts(values)
    distinct = len(set(texts))
    several = max(FEW_VALUES, len(texts) // _MOST_OF_GROUP) < distinct < len(texts) == len(values)
    return several and _are_names(name, texts)


def _list_texts(values: Sequence[object]) -> list[str]:
    return [str(value).strip() for value in values if value is not None and value != ""]


def _are_names(name: str, texts: list[str]) -> bool:
    words = all(map(_is_whole, texts)) or not any(is_number(text) or " " in text for text in texts)
    return words and _is_row_name(name)


def _is_row_name(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
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

"""What is to be learned from a label: classes, numbers or several classes a row, decided from its values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION, TASKS
from wssources.formats import MAX_CLASSES
from wssources.input_error import blame_input, suggest
from wssources.name_lists import split_names

AUTO = "auto"
TASK_CHOICES = (AUTO, *TASKS)
FEW_VALUES = 20  # distinct numbers that are classes
SOME_VALUES = 5  # distinct fractions that are no classes, if more than half of the rows differ
_NEARLY_ALL = 0.9  # of the rows
SEPARATORS = (";", "|")  # between the classes of a row, in text
BOOLEANS = {"true": 1.0, "false": 0.0}
_WHOLE = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class Decision:
    """The task, and why it is that one, as a part of a sentence.

    Attributes:
        task: one of `wsshards.terms.TASKS`.
        reason: what of the label, or of the inputs, says so.
        separator: between the classes in a text; empty for lists and for one column a class.
        several: whether the classes of a row are in one column.
    """

    task: str
    reason: str = ""
    separator: str = ""
    several: bool = False


@dataclass
class LabelValues:
    """What a label column holds, as far as it was read.

    Attributes:
        name: of the column.
        rows: that have a value.
        distinct: the values, as text; no more than `MAX_CLASSES` are kept.
        fraction: the first value that is a number, but not a whole one.
        text: the first value that is text.
    """

    name: str
    rows: int = 0
    distinct: dict[str, None] = field(default_factory=dict)
    booleans: int = 0
    wholes: int = 0
    decimals: int = 0  # whole numbers that are written or stored as fractions: 3.0
    fractions: int = 0
    lists: int = 0
    texts: int = 0
    fraction: str = ""
    text: str = ""

    def add(self, value: Any, rows: int = 1) -> None:
        """Count the value of rows: a cell of text, or a value of JSON or of NumPy; None is missing."""
        if value is None or value == "":
            return
        self.rows += rows
        kind = _find_kind(value)
        setattr(self, kind, getattr(self, kind) + rows)
        if kind == "fractions" and not self.fraction:
            self.fraction = str(value)
        if kind == "texts" and not self.text:
            self.text = str(value)
        if len(self.distinct) <= MAX_CLASSES:
            self.distinct[name_class(value) if kind != "lists" else ""] = None

    @property
    def numbers(self) -> int:
        """Rows whose value is a number."""
        return self.wholes + self.decimals + self.fractions

    @property
    def is_binary(self) -> bool:
        """Whether every value is 0 or 1, or true or false."""
        if self.booleans == self.rows:
            return True
        return self.numbers == self.rows and not self.fractions and {*self.distinct} <= {"0", "1"}


def name_class(value: Any) -> str:
    """Return the name of a class: 3 and 3.0 are one."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _find_kind(value: Any) -> str:
    if isinstance(value, float):
        return "decimals" if value.is_integer() else "fractions"
    for kind, name in ((bool, "booleans"), (int, "wholes"), (list, "lists")):
        if isinstance(value, kind):
            return name
    return _find_kind_of_text(str(value))


def _find_kind_of_text(text: str) -> str:
    if text.lower() in BOOLEANS:
        return "booleans"
    if _WHOLE.fullmatch(text):
        return "wholes"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        return "texts"
    return "decimals" if number.is_integer() else "fractions"


def split_label(label: str, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the label columns: one, or several with commas between them."""
    if "," not in label or label in set(columns):
        return (label,)
    return split_names(label) or (label,)


def decide_task(
    task: str, labels: Sequence[LabelValues], *, sampled: bool, called: str, cells: bool = False
) -> Decision:
    """Return the task of a table.

    Args:
        task: as asked for; `auto` decides by the values.
        labels: what was read of each label column.
        sampled: whether there are more rows than were read.
        called: what messages call the data.
        cells: whether the values are cells of CSV, whose reader names the line of the first odd one.

    Raises:
        UserError: the values do not tell, or are not those of the task.
    """
    if task not in TASK_CHOICES:
        raise UserError(f"unknown task `{task}`", suggest(task, TASK_CHOICES))
    if task == LANGUAGE_MODEL:
        raise UserError(
            f"`task` is `{LANGUAGE_MODEL}`, and `{called}` is a table with the label `{labels[0].name}`",
            "give files of text, or another task",
        )
    if len(labels) > 1:
        return _decide_several(task, labels, sampled=sampled)
    (label,) = labels
    separator = find_separator(label.distinct) if label.texts else ""
    if task == AUTO:
        if label.lists or separator:
            what = "lists" if label.lists else f"classes separated by `{separator}`"
            return Decision(MULTI_LABEL, f"{_named(label)} holds {what}", separator, several=True)
        return _decide_one(label, sampled=sampled)
    _check_task(task, label, sampled=sampled, cells=cells)
    if task == MULTI_LABEL:
        return Decision(
            task, "`task` says so", separator or SEPARATORS[0], several=not label.is_binary or not label.rows
        )
    return Decision(task, "`task` says so")


def check_possible(task: str, possible: str, called: str) -> None:
    """Refuse a task that data of one kind, pictures or text, is not for; raises InputError."""
    if task in (AUTO, possible):
        return
    with blame_input("label-not-a-class", "task"):
        raise UserError(
            f"`task` is `{task}`, and `{called}` is data for `{possible}`",
            f"leave `task` out, or say `task: {possible}`",
        )


def find_separator(values: Iterable[str]) -> str:
    """Return what separates classes in texts: a sign without which two values would share nothing."""
    for sign in SEPARATORS:
        parts: dict[str, int] = {}
        joined = False
        for value in values:
            each = {part.strip() for part in value.split(sign)}
            joined = joined or len(each) > 1
            for part in each:
                parts[part] = parts.get(part, 0) + 1
        if joined and any(count > 1 for count in parts.values()):
            return sign
    return ""


def _decide_one(label: LabelValues, *, sampled: bool) -> Decision:
    distinct, rows = len(label.distinct), label.rows
    if label.texts and distinct > FEW_VALUES and label.numbers >= _NEARLY_ALL * rows:
        raise UserError(
            f"{_named(label)} has {distinct:,} distinct values, nearly all numbers, and text such as"
            f" `{clip_text(label.text)}`",
            "correct it, and say `task: regression` for numbers to predict or `task: classification`",
        )
    if label.texts or label.booleans or not label.rows:
        return Decision(CLASSIFICATION, f"{_named(label)} holds {_say_kind(label, example=False)}")
    shown = f"{_named(label)} has {_count(label)} in {_say_rows(label, sampled=sampled)}"
    if label.fractions:
        if distinct > FEW_VALUES or (distinct >= SOME_VALUES and distinct * 2 > rows):
            return Decision(REGRESSION, shown)
        raise _ambiguous(f"{shown}, such as `{label.fraction}`: few for numbers to predict, and odd names")
    if distinct <= FEW_VALUES:
        return Decision(CLASSIFICATION, shown)
    if label.decimals == rows:
        return Decision(REGRESSION, shown)
    raise _ambiguous(f"{shown}: they may be classes, or numbers to predict")


def _decide_several(task: str, labels: Sequence[LabelValues], *, sampled: bool) -> Decision:
    names = ", ".join(f"`{clip_text(label.name)}`" for label in labels[:4]) + (" …" if labels[4:] else "")
    if task == CLASSIFICATION:
        raise UserError(
            f"`task` is `classification`, and `label` names {len(labels)} columns: {names}",
            "name one column of classes, or say `task: multi_label` for columns of 0 and 1",
        )
    binary = all(label.is_binary for label in labels)
    if task == MULTI_LABEL or (task == AUTO and binary):
        wrong = next((label for label in labels if not label.is_binary), None)
        if wrong is not None:
            raise UserError(
                f"{_named(wrong)} has {_count(wrong)} in {_say_rows(wrong, sampled=sampled)}, not just 0"
                " and 1",
                "several label columns of classes hold 0 or 1 for each row",
            )
        return Decision(MULTI_LABEL, f"{names} hold 0 and 1" if task == AUTO else "`task` says so")
    wrong = next((label for label in labels if label.rows and label.numbers < label.rows), None)
    if wrong is not None:
        raise UserError(
            f"{_named(wrong)} holds {_say_kind(wrong)}, and `label` names {len(labels)} columns",
            "name columns of numbers to predict, columns of 0 and 1, or one column of classes",
        )
    return Decision(REGRESSION, f"{names} hold numbers" if task == AUTO else "`task` says so")


def _check_task(task: str, label: LabelValues, *, sampled: bool, cells: bool) -> None:
    """Refuse values that the asked task cannot learn; raises UserError."""
    distinct = len(label.distinct)
    if task == CLASSIFICATION and label.fractions and not label.texts and distinct > FEW_VALUES:
        raise UserError(
            f"{_named(label)} has {_count(label)} such as `{label.fraction}` in"
            f" {_say_rows(label, sampled=sampled)}, and `task` is `classification`",
            "say `task: regression`, or name a column of classes in `label`",
        )
    if task == REGRESSION and label.numbers * (2 if cells else 1) < label.rows:
        raise UserError(
            f"{_named(label)} holds {_say_kind(label)}, and `task` is `regression`",
            "name a column of numbers in `label`, or say `task: classification`",
        )
    if task == MULTI_LABEL and label.fractions:
        raise UserError(
            f"{_named(label)} has the value `{label.fraction}`, which is not a class",
            "name columns of 0 and 1, or one column of lists or of texts such as `red;blue`",
        )


def _ambiguous(message: str) -> UserError:
    return UserError(message, "say `task: regression` or `task: classification`")


def _named(label: LabelValues) -> str:
    return f"label `{clip_text(label.name)}`"


def _count(label: LabelValues) -> str:
    count = len(label.distinct)
    shown = f"more than {MAX_CLASSES:,}" if count > MAX_CLASSES else f"{count:,}"
    if label.texts or label.lists:
        return f"{shown} distinct values"
    whole = "whole numbers" if label.wholes == label.rows else "numbers"
    return f"{shown} distinct {'numbers with fractions' if label.fractions else whole}"


def _say_kind(label: LabelValues, *, example: bool = True) -> str:
    if label.lists:
        return "lists"
    if label.booleans == label.rows and label.rows:
        return "true and false"
    if label.texts:
        return f"text such as `{clip_text(label.text)}`" if example else "text"
    return "true and false beside numbers" if label.rows else "text"


def _say_rows(label: LabelValues, *, sampled: bool) -> str:
    return f"the first {label.rows:,} rows" if sampled else f"{label.rows:,} rows"

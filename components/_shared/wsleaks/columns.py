"""Columns that alone tell the label: known only after the event, or the label under another name.

Nothing here needs more than the standard library.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from wsshards.errors import clip_text

MAX_ROWS = 2_000  # that are looked at
MAX_CELLS = 200_000
_LEAST_ROWS = 30  # judged, of other labels than the most frequent one; of numbers in all
_CERTAIN = 0.98  # of the errors of a constant answer are gone; honest columns of well-known tables reach 0.97
_HELP = "leave it out: name the other columns in `features`, unless its value is known before the label is"

Value = Hashable  # None is missing; int and float are ordered, all else is a category


class TellingColumn(NamedTuple):
    """A column that alone tells the label.

    Attributes:
        name: of the column.
        by_presence: whether it is enough to know that the column has a value.
        score: share of rows for which the column alone gives the label; of numbers R².
        constant: the same of the most frequent label; of numbers 0.
        rows: on which it was measured.
        classes: whether the label is a class.
    """

    name: str
    by_presence: bool
    score: float
    constant: float
    rows: int
    classes: bool

    def describe(self, label: str) -> str:
        """Return a sentence with the numbers, without a full stop."""
        name, label = clip_text(self.name), clip_text(label)
        which = f"whether column `{name}` has a value" if self.by_presence else f"column `{name}` alone"
        gains = (
            f"it is right in {100 * self.score:.4g} % of {self.rows:,} rows, and the most frequent class in"
            f" {100 * self.constant:.4g} %"
            if self.classes
            else f"R² is {self.score:.4g} on {self.rows:,} rows"
        )
        return f"{which} tells `{label}`: {gains}"

    @property
    def help(self) -> str:
        """What to do."""
        return _HELP


def find_telling_columns(
    columns: Mapping[str, Sequence[Value]], labels: Sequence[Value], *, classes: bool
) -> list[TellingColumn]:
    """Return the columns with which alone nearly no error is left, the most telling first.

    Half of the rows give each value its most frequent label, or its mean, and the other half is judged by the
    same value, else by the nearest ones of a number. So an id tells nothing, unless the rows are sorted.

    Args:
        columns: values by column; as many as there are labels.
        labels: of the rows; numbers unless they are classes. Rows without one are left out.
        classes: whether labels are classes.
    """
    rows = [row for row, label in enumerate(labels) if label is not None]
    rows.sort(key=lambda row: row * 2_654_435_761 % 2**32)  # in no order of their own, the same every time
    del rows[max(2, min(MAX_ROWS, MAX_CELLS // max(1, len(columns)))) :]
    half = len(rows) // 2
    learned, judged = rows[:half], rows[half:]
    right = [labels[row] for row in judged]
    measure = _share_right if classes else _r_squared
    if not judged or not half:
        return []
    usual = _answer([labels[row] for row in learned], classes)
    constant = measure([usual] * len(judged), right)
    others = sum(label != usual for label in right)
    if others < _LEAST_ROWS:
        return []
    telling = []
    for name, values in columns.items():
        for by_presence in (True, False):
            known = [values[row] is not None if by_presence else values[row] for row in rows]
            score = measure(_predict(known, [labels[row] for row in learned], usual, classes), right)
            if score - constant >= _CERTAIN * (1 - constant):
                telling.append(TellingColumn(name, by_presence, score, constant, len(judged), classes))
                break
    return sorted(telling, key=lambda column: -column.score)


def _predict(values: list[Value], labels: list[Any], usual: Any, classes: bool) -> list[Any]:
    """Return what the first values, which have labels, say of the labels of the rest."""
    by_value: dict[Value, list[Any]] = defaultdict(list)
    for value, label in zip(values, labels, strict=False):
        by_value[value].append(label)
    answers = {value: _answer(own, classes) for value, own in by_value.items()}
    numbers: list[Any] = sorted(
        value for value in answers if isinstance(value, int | float) and not isinstance(value, bool)
    )
    return [
        answers[value]
        if value in answers
        else _between(value, numbers, answers, classes)
        if numbers and _is_ordered(value)
        else usual
        for value in values[len(labels) :]
    ]


def _between(value: Any, numbers: list[Any], answers: Mapping[Any, Any], classes: bool) -> Any:
    """Return the answer of the nearest number, or for numbers what lies between the two around it."""
    place = bisect.bisect(numbers, value)
    below, above = numbers[max(place - 1, 0)], numbers[min(place, len(numbers) - 1)]
    if classes or below == above:
        return answers[below if value - below <= above - value else above]
    share = (value - below) / (above - below)
    return answers[below] + share * (answers[above] - answers[below])


def _answer(labels: list[Any], classes: bool) -> Any:
    return Counter(labels).most_common(1)[0][0] if classes else sum(labels) / len(labels)


def _is_ordered(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _share_right(answers: list[Any], labels: list[Any]) -> float:
    right = sum(bool(answer == label) for answer, label in zip(answers, labels, strict=True))
    return right / len(labels)


def _r_squared(answers: list[Any], labels: list[Any]) -> float:
    mean = sum(labels) / len(labels)
    total = sum((label - mean) ** 2 for label in labels)
    left = sum((answer - label) ** 2 for answer, label in zip(answers, labels, strict=True))
    return float(1 - left / total) if total else 0.0

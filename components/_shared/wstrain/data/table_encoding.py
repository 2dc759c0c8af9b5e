"""How a row of a table becomes the numbers that a model reads; every framework makes a layer of it.

Shards keep one number for a column: a category is an index, a date two numbers, a missing cell NaN
(:class:`wsshards.manifest.Column`). The encoding is fixed by the manifest and travels with the exported
model. In the order of the columns, a model reads:

- of a number or a Boolean its value, of a missing one the mean of the training rows;
- of a category one column for each value of the training rows, 1 for the row's own, and only zeros for a
  value that no training row has;
- of a date the years since the mean of the training rows, and sine and cosine of its place in the year, in
  the week (from Monday) and in the day;
- after any column whose values may be missing, 1 where one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wsshards.manifest import Column
from wsshards.terms import BOOLEAN, CATEGORY, DATE, NUMBER

DAYS_PER_YEAR, DAYS_PER_WEEK, SECONDS_PER_DAY = 365.2425, 7.0, 86_400.0
EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday, the third day after a Monday
_DATE_NUMBERS = 7  # years, and sine and cosine of three circles


@dataclass(frozen=True, slots=True)
class TableEncoding:
    """The constants of the encoding; all positions are of numbers in a stored row.

    The encoded numbers are made in groups, in this order: `plain`, `categories`, `missing`, then of the dates
    the years, three sines and three cosines, each for all dates; `order` then picks them column by column.

    Attributes:
        width: numbers in a stored row.
        fill: what a missing number is replaced by, for each of them.
        plain: positions of numbers and Booleans.
        categories: position of each category's column, and the index of the category.
        missing: positions that may be missing.
        days: positions of the days of dates; the seconds are the next ones.
        mean_days: mean days of each date over the training rows.
        order: for each encoded number its place among the groups.
        scaled: for each encoded number whether it is a measure, and not 0, 1, a sine or a cosine.
    """

    width: int
    fill: tuple[float, ...]
    plain: tuple[int, ...]
    categories: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]
    days: tuple[int, ...]
    mean_days: tuple[float, ...]
    order: tuple[int, ...]
    scaled: tuple[bool, ...]

    @property
    def encoded(self) -> int:
        """Numbers that a model reads."""
        return len(self.order)


def make_table_encoding(columns: Sequence[Column]) -> TableEncoding | None:
    """Return the encoding of such columns; None if the stored numbers are what a model reads."""
    if all(column.kind in (NUMBER, BOOLEAN) and not column.optional for column in columns):
        return None
    starts = [sum(before.width for before in columns[:number]) for number in range(len(columns))]
    placed = list(zip(columns, starts, strict=True))
    dates = [(number, at) for number, (column, at) in enumerate(placed) if column.kind == DATE]
    plain = [(number, at) for number, (column, at) in enumerate(placed) if column.kind in (NUMBER, BOOLEAN)]
    values = [
        (number, at, value)
        for number, (column, at) in enumerate(placed)
        if column.kind == CATEGORY
        for value in range(len(column.categories))
    ]
    missing = [(number, at) for number, (column, at) in enumerate(placed) if column.optional]
    # What is sorted by: the column, then the place among the numbers of one column.
    keys = [(number, 0) for number, _ in plain]
    keys += [(number, value) for number, _, value in values]
    keys += [(number, 1 << 30) for number, _ in missing]
    for part in (0, 1, 3, 5, 2, 4, 6):  # years, sines, cosines; encoded as pairs
        keys += [(number, part) for number, _ in dates]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    measures = [columns[number].kind == NUMBER for number, _ in plain] + [False] * (
        len(values) + len(missing)
    )
    measures += [True] * len(dates) + [False] * (len(dates) * (_DATE_NUMBERS - 1))
    return TableEncoding(
        width=sum(column.width for column in columns),
        fill=tuple(number for column in columns for number in _fill(column)),
        plain=tuple(at for _, at in plain),
        categories=tuple((at, value) for _, at, value in values),
        missing=tuple(at for _, at in missing),
        days=tuple(at for _, at in dates),
        mean_days=tuple(_fill(columns[number])[0] for number, _ in dates),
        order=tuple(order),
        scaled=tuple(measures[place] for place in order),
    )


def _fill(column: Column) -> tuple[float, ...]:
    return column.mean if len(column.mean) == column.width else (0.0,) * column.width

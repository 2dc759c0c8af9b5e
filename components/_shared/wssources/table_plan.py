"""How a table is read: its label, its task, the kind of each column, and what divides its rows.

All of it is decided from the head of the table, the same way by the checker and by the step. The step holds
every further row to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.terms import BOOLEAN, CATEGORY, CLASSIFICATION, DATE, NUMBER, REGRESSION
from wssources.column_kinds import (
    check_categories,
    check_column_types,
    find_date_forms,
    settle_kind,
    split_kind,
)
from wssources.columns import choose_columns
from wssources.head_faults import check_has_values, check_notation, check_targets_differ
from wssources.input_error import blame_input, suggest
from wssources.request import DROP, FILL, MISSING, REFUSE, Request
from wssources.split_settings import (
    WINDOW,
    SplitSettings,
    TimeBounds,
    Window,
    find_bounds,
    find_time_column,
)
from wssources.tasks import Decision, LabelValues, decide_task, split_label

FILL_HELP = "fill or drop missing values: `missing: fill` or `missing: drop`"
LABEL_HELP = "give every row a label, or leave such rows out with `missing: fill` or `missing: drop`"
KIND_HELP = {
    NUMBER: "correct it, list the numeric columns in `features`, or say `column_types: NAME=category`",
    BOOLEAN: "correct it, or say `column_types: NAME=category`",
    DATE: "write dates as `2026-01-31` or `2026-01-31 12:30`, or say their form, as in"
    " `column_types: NAME=date %d/%m/%Y`, or `column_types: NAME=category`",
}
HEAD_ROWS = 10_000
HEAD_CELLS = 200_000
HEAD_BYTES = 2 << 20  # of text


@dataclass
class Head:
    """The first rows of a table.

    Attributes:
        columns: names, in the order of the file.
        rows: values by column; of CSV text, else as Python has them.
        kinds: of columns whose type the file says.
        cells: whether the values are cells of text, which may stand for anything.
        complete: whether these are all rows.
    """

    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    kinds: Mapping[str, str] = field(default_factory=dict)
    cells: bool = False
    complete: bool = True
    _places: dict[str, int] | None = field(default=None, repr=False)
    size: int = 0  # characters, bytes or values in the texts and lists that were added

    def add(self, row: Sequence[Any]) -> bool:
        """Take in a row, and return whether another may follow."""
        self.rows.append(row)
        self.size += sum(len(value) for value in row if isinstance(value, str | bytes | list))
        return len(self.rows) < self.most and self.size <= HEAD_BYTES

    def values(self, name: str) -> list[Any]:
        """Return the values of a column."""
        if self._places is None:
            self._places = {column: place for place, column in reversed([*enumerate(self.columns)])}
        place = self._places[name]
        return [row[place] for row in self.rows]

    @property
    def most(self) -> int:
        """Rows that a head may have."""
        return min(HEAD_ROWS, max(1, HEAD_CELLS // max(len(self.columns), 1)))


def describe_no_date(name: str, text: str, form: str) -> tuple[str, str]:
    """Return that a text is no date, or none in the form of its column, as a clause, and what to do."""
    forms = find_date_forms([text]) if form else []
    kinds = " or ".join(f"`column_types: {name}=date {other}`" for other in forms)
    return (
        f"which is not a date in the form `{form}`" if form else "which is not a date",
        f"correct it, or say the form that it has: {kinds}" if kinds else KIND_HELP[DATE],
    )


@dataclass(frozen=True)
class TablePlan:
    """What is read of each row of a table.

    Attributes:
        labels: columns of the label.
        features: kind of each feature column, in order; empty for one column of lists.
        listed: the column of lists, or empty.
        decision: the task.
        missing: `refuse`, `fill` or `drop`.
        by: column of the group, or empty.
        time: column of the time, or empty.
        bounds: of the time.
        window: of the rows that are used; None for all.
        date_forms: of features whose dates are not in ISO 8601, for `strptime`.
        sampled: whether there are more rows than the decisions saw.
    """

    labels: tuple[str, ...]
    features: Mapping[str, str]
    listed: str
    decision: Decision
    missing: str
    by: str = ""
    time: str = ""
    bounds: TimeBounds | None = None
    window: Window | None = None
    date_forms: Mapping[str, str] = field(default_factory=dict)
    sampled: bool = False
    checked: bool = False  # whether all rows must bear out what the head says of the label

    @property
    def names(self) -> list[str]:
        """The columns to read: features first, then labels, then what divides the rows."""
        names = (*self.features, self.listed, *self.labels, *self.dividing)
        return list(dict.fromkeys(name for name in names if name))

    @property
    def dividing(self) -> list[str]:
        """The columns that decide on a row, each of which must have a value."""
        names = (self.by, self.time, self.window.column if self.window else "")
        return [name for name in names if name]

    @property
    def width(self) -> int:
        """Numbers in a row of features, as stored."""
        return sum(2 if kind == DATE else 1 for kind in self.features.values())

    @property
    def is_plain(self) -> bool:
        """Whether every feature is a number that is never missing."""
        return self.missing != FILL and all(kind == NUMBER for kind in self.features.values())


def may_miss(plan: TablePlan, name: str) -> bool:
    """Return whether a row may lack a value of a column, which is then filled, or the row dropped."""
    if plan.missing == REFUSE or name in plan.dividing:
        return False
    return plan.missing == DROP or name in plan.features or name in plan.labels


def leaves_out(plan: TablePlan, name: str) -> bool:
    """Return whether a row is left out if it lacks a value that it may miss, as a label always is."""
    return plan.missing == DROP or name in plan.labels


def plan_table(request: Request, head: Head) -> TablePlan:
    """Decide how a table is read.

    Raises:
        InputError: a column is missing, the label or a column cannot be learned, or the split is impossible.
    """
    file = request.files[0]
    if request.missing not in MISSING:
        with blame_input("data-column-missing", "missing"):
            raise UserError(
                f"unknown `missing: {clip_text(request.missing)}`", suggest(request.missing, MISSING)
            )
    chosen = _choose(request, head)
    labels, called = split_label(request.label, head.columns), request.show(file)
    found = [_label(head, name) for name in labels]
    with blame_input("label-not-a-class", "label"):
        decision = decide_task(
            request.task, found, sampled=not head.complete, called=called, cells=head.cells
        )
        if decision.task == REGRESSION and head.complete:
            check_targets_differ(found, called)
    listed = chosen[0] if len(chosen) == 1 and _holds_lists(head, chosen[0]) else ""
    kinds = {} if listed else {name: _kind(request, head, name) for name in chosen}
    features = {name: kind for name, (kind, _) in kinds.items()}
    for name, kind in features.items():
        with blame_input("data-row-invalid", "features"):
            if head.complete and name not in head.kinds:
                check_has_values(name, head.values(name), called)
            if kind == CATEGORY and name not in request.column_types:
                check_notation(name, head.values(name), called)
                check_categories(name, head.values(name), sampled=not head.complete, called=called)
    split = request.split or SplitSettings()
    time, bounds = find_time(request, head, split)
    return TablePlan(
        labels,
        features,
        listed,
        decision,
        request.missing,
        split.by,
        time,
        bounds,
        _find_window(request, head, split),
        {name: form for name, (_, form) in kinds.items() if form},
        not head.complete,
        request.task == "auto" and decision.task == CLASSIFICATION,
    )


def _find_window(request: Request, head: Head, split: SplitSettings) -> Window | None:
    """Return the window with the form of its column's dates; raises InputError if it has none."""
    if split.window is None:
        return None
    name, called = split.window.column, request.show(request.files[0])
    with blame_input("data-column-missing", WINDOW):
        if name not in head.columns:
            raise UserError(f"`{called}` has no column `{clip_text(name)}`", suggest(name, head.columns))
        kind, form = _kind(request, head, name)
        if kind != DATE:
            raise UserError(f"column `{clip_text(name)}` of `{called}` holds no dates", KIND_HELP[DATE])
    return split.window._replace(form=form)


def _choose(request: Request, head: Head) -> list[str]:
    columns = head.columns
    labels = split_label(request.label, columns)
    dividing = request.split.columns if request.split else ()
    blamed = "label"
    if all(name in columns for name in labels):
        wrong = {*request.features} - {*columns} or {*labels} & {*request.features}
        blamed = "features" if wrong else "label"
        missing = [name for name in dividing if name not in columns]
        if not wrong and missing and request.split:
            blamed = "split_by" if missing[0] == request.split.by else "split_time"
    with blame_input("data-column-missing", blamed):
        chosen = choose_columns(request, request.files[0], columns)
    with blame_input("data-column-missing", "column_types"):
        check_column_types(request.column_types, columns, request.show(request.files[0]))
    return chosen


def _label(head: Head, name: str) -> LabelValues:
    values = LabelValues(name)
    for value in head.values(name):
        values.add(value)
    return values


def _holds_lists(head: Head, name: str) -> bool:
    return head.kinds.get(name) == "list" or any(isinstance(value, list) for value in head.values(name))


def _kind(request: Request, head: Head, name: str) -> tuple[str, str]:
    """Return the kind of a column, and the form of its dates if they are not in ISO 8601."""
    stated = request.column_types.get(name) or head.kinds.get(name)
    if stated:
        return split_kind(stated)
    return settle_kind(head.values(name), cells=head.cells)


def find_time(request: Request, head: Head, split: SplitSettings) -> tuple[str, TimeBounds | None]:
    """Return the column that divides rows by time, and the bounds; raises InputError if there is none."""
    if not split.by_time:
        return "", None
    given = "split_time" if split.time else "validation_after" if split.validation_after else "test_after"
    with blame_input("data-column-missing", given):
        among = [split.time] if split.time else head.columns
        kinds = {name: _kind(request, head, name) for name in among}
        name = find_time_column(split, {name: kind for name, (kind, _) in kinds.items()})
        return name, find_bounds(split, name, *kinds[name])

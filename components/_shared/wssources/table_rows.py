"""Reads the rows of a table one by one, and tallies what of them decides plans: for data that is small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wsshards.errors import UserError
from wsshards.terms import CATEGORY, CLASSIFICATION, DATE, MULTI_LABEL, NUMBER
from wssources import json_rows, row_faults
from wssources.column_kinds import MISSING_NUMBERS
from wssources.groups import hash_group, newest_key
from wssources.part_counts import PartCounts
from wssources.request import FILL, Request
from wssources.split_settings import UNDECIDED, SplitSettings, find_parts, fixed_parts, head_files
from wssources.table_plan import HEAD_BYTES, Head, TablePlan, plan_table
from wssources.tasks import LabelValues, decide_task, name_class

_DATE_ENCODED = 7  # years, and sine and cosine of the day of the year, of the week and of the time


def plan_file_table(request: Request, kind: str) -> tuple[TablePlan, Head]:
    """Return how the CSV or JSON Lines files of a request are read, and their head; raises UserError."""
    files = head_files(request)
    read = row_faults.read_csv_head if kind == "csv" else json_rows.read_json_head
    head = read(request, files, HEAD_BYTES)
    return plan_table(request, head), head


def read_rows(
    request: Request, kind: str, file: Path, plan: TablePlan, head: Head, *, most: float
) -> Iterator[Mapping[str, Any] | None]:
    """Yield the rows of a file, up to about `most` characters; None for a row that is dropped.

    Raises:
        UserError: for the first row that is not as planned.
    """
    if kind == "csv":
        yield from row_faults.read_csv_rows(request, file, plan, most)
        return
    kinds = json_rows.find_json_kinds(plan, head)
    start = read = 0
    listed: list[Any] = (
        next((value for value in head.values(plan.listed) if value), []) if plan.listed else []
    )
    for block in json_rows.line_blocks(request, file, 1 << 16):
        for row in json_rows.read_json_rows(request, file, block, plan, kinds, start=start):
            start += 1
            if row is not None and plan.listed and len(row[plan.listed]) != len(listed):
                raise UserError(
                    f"row {start} of `{request.show(file)}` has {len(row[plan.listed])} values, but the first"
                    f" row {len(listed)}",
                    "all rows must have the same number of features",
                )
            yield row
        read += len(block)
        if read > most:
            return


class Tally:
    """What the rows of a table are together.

    Attributes:
        rows: that were not dropped.
        labels: the values of each label column.
        parts: rows by part.
        classes: of several in one column.
        incomplete: features that lack a value in some row.
        categories: by feature, the values of it.
        listed_width: numbers in a list of features.
    """

    def __init__(self, request: Request, plan: TablePlan) -> None:
        self.rows = 0
        self.plan, self._request = plan, request
        self._files = find_parts(request)
        self.labels = [LabelValues(name) for name in plan.labels]
        self.parts = PartCounts(
            request.split or SplitSettings(), fixed_parts(plan.bounds, self._files.values())
        )
        self.classes: set[str] = set()
        self.listed_width = 0
        self.incomplete: set[str] = set()
        self.categories: dict[str, set[str]] = {
            name: set() for name, kind in plan.features.items() if kind == CATEGORY
        }

    def add(self, file: Path, row: Mapping[str, Any] | None) -> None:
        """Take in a row, with the planned columns that matter."""
        plan = self.plan
        if row is None or (plan.window is not None and not plan.window.holds(row[plan.window.column])):
            return
        self.rows += 1
        for values in self.labels:
            values.add(row[values.name])
        part = self._files.get(file, UNDECIDED)
        if plan.bounds is not None and not part:
            moment = plan.bounds.read(row[plan.time])
            part = plan.bounds.part(moment) if moment is not None else UNDECIDED
        single = plan.decision.task == CLASSIFICATION
        self.parts.add(name_class(row[plan.labels[0]]) if single else "", part, self._key(row))
        if plan.decision.several:
            value = row[plan.labels[0]]
            parts = value if isinstance(value, list) else str(value).split(plan.decision.separator)
            self.classes.update(str(each).strip() for each in parts if str(each).strip())
        if plan.listed and not self.listed_width:
            self.listed_width = len(row.get(plan.listed, ()))
        if plan.missing == FILL or self.categories:
            self._add_features(row)

    def _key(self, row: Mapping[str, Any]) -> int | None:
        plan = self.plan
        if plan.bounds is not None and plan.bounds.newest:
            moment = plan.bounds.read(row[plan.time])
            return None if moment is None else newest_key(moment)
        if not plan.by:
            return None
        value = row[plan.by]
        if isinstance(value, str) and plan.features.get(plan.by) == NUMBER:
            value = float(value)  # a number that is a feature too is read as one
        return hash_group(value, self.parts.split.seed)

    def _add_features(self, row: Mapping[str, Any]) -> None:
        for name, kind in self.plan.features.items():
            value = row.get(name, 0)
            missing = value is None or value == "" or value != value  # noqa: PLR0124 - NaN
            if missing or (kind != CATEGORY and isinstance(value, str) and value in MISSING_NUMBERS):
                self.incomplete.add(name)
            elif kind == CATEGORY:
                self.categories[name].add(str(value))

    def agrees(self) -> bool:
        """Return whether all labels bear out the task that the first ones showed."""
        if self._request.task != "auto":
            return True
        try:
            decision = decide_task("auto", self.labels, sampled=False, called="")
        except UserError:
            return False
        return decision.task == self.plan.decision.task

    @property
    def encoded_width(self) -> int:
        """Numbers that a model gets for a row, once columns are encoded."""
        width = self.listed_width
        for name, kind in self.plan.features.items():
            own = {CATEGORY: len(self.categories.get(name, ())), DATE: _DATE_ENCODED}.get(kind, 1)
            width += own + (name in self.incomplete)
        return width

    @property
    def outputs(self) -> int:
        """Classes or targets."""
        if self.plan.decision.task == CLASSIFICATION:
            return len(self.labels[0].distinct)
        if self.plan.decision.task == MULTI_LABEL and self.plan.decision.several:
            return len(self.classes)
        return len(self.labels)

"""The part of `shard_data`'s local input that was read, and how much of it may be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field

from wsleaks.columns import TellingColumn, find_telling_columns
from wsshards.errors import UserError
from wsshards.regular_files import check_regular
from wsshards.terms import CATEGORY, CLASSIFICATION, NUMBER, REGRESSION
from wssources.column_kinds import compare_as
from wssources.input_error import blame_input
from wssources.part_counts import PartCounts
from wssources.planned_rows import divide_rows
from wssources.request import Request, is_packed
from wssources.split_settings import SplitSettings, expect_held_out, find_parts
from wssources.table_rows import Tally
from wssources.tasks import name_class


class Limits(NamedTuple):
    """How much is read; by default what shows most faults in a moment."""

    rows: int = 10_000
    cells: int = 200_000
    size: int = 2 << 20  # bytes of tables and JSON Lines
    opened: int = 100  # files of tables
    pictures: int = 1_000  # whose size is read, spread over all
    numbers: int = 80_000  # bytes of an array in an archive


SAMPLED = Limits()


class Sample(Struct):
    """What was read: the first fault, with the rule and the input that it belongs to, or the labels."""

    limits: Limits
    check_time: Callable[[], None]  # raises where the reader has used up its time
    fault: UserError | None = None
    slug: str = "data-row-invalid"
    blamed: str = ""  # the input to correct
    labels: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    complete: bool = True  # every row was read
    task: str = CLASSIFICATION
    reason: str = ""  # why it is this task, of pictures
    tally: Tally | None = None  # of a table
    parts: PartCounts | None = None  # of pictures and texts
    table: list[Mapping[str, Any]] = field(default_factory=list)  # its rows, with what is learned from

    @property
    def full(self) -> bool:
        """Whether no more rows are to be read."""
        if self.rows >= self.limits.rows:
            self.complete = False
        return not self.complete

    def add(self, value: Any) -> None:
        """Count the label of a row."""
        self.labels[name_class(value)] += 1
        self.rows += 1

    def add_row(self, file: Path, row: Mapping[str, Any] | None) -> None:
        """Take in a row of a table; None is one that is dropped."""
        assert self.tally is not None
        self.tally.add(file, row)
        if row is not None:
            self.table.append(row)
        if row is not None and self.task == CLASSIFICATION:
            self.add(row[self.tally.plan.labels[0]])
        elif row is not None:
            self.rows += 1

    def find_telling(self) -> list[TellingColumn]:
        """The columns that alone tell the class or the one number that is to be predicted."""
        plan = self.tally.plan if self.tally is not None else None
        if plan is None or self.task not in (CLASSIFICATION, REGRESSION) or len(plan.labels) > 1:
            return []
        classes = self.task == CLASSIFICATION
        columns = {
            name: compare_as((row[name] for row in self.table), kind, plan.date_forms.get(name, ""))
            for name, kind in plan.features.items()
        }
        label_kind = CATEGORY if classes else NUMBER
        labels = compare_as((row[plan.labels[0]] for row in self.table), label_kind)
        return find_telling_columns(columns, labels, classes=classes)

    def divide(self, request: Request) -> int:
        """The training rows of completely read data; raises UserError if a part is empty."""
        parts = self.tally.parts if self.tally is not None else self.parts
        if parts is not None:
            rows = parts.divide()
            expect_held_out(parts.split, rows, fixed=parts.fixed, groups=len(parts.keys))
            return rows[0]
        split = request.split or SplitSettings()
        counts = list(self.labels.values()) if self.labels else [self.rows]
        return divide_rows(counts, split.validation, split.test)[0]


def list_tables(request: Request, sample: Sample) -> Iterator[Path]:
    """The files of a table that are read, as long as the bounds allow."""
    size = 0
    for file in islice(request.files, sample.limits.opened):
        size += check_regular(file)
        sample.complete = sample.complete and size <= sample.limits.size and not is_packed(file)
        yield file
        if sample.full:
            return
    sample.complete = sample.complete and len(request.files) <= sample.limits.opened


def find_given_parts(request: Request) -> dict[Path, int]:
    """Return the part of each file, if files are named for parts; raises InputError."""
    with blame_input("data-source-missing", "split"):
        return find_parts(request)

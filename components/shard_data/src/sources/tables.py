"""Tables of any format: from record batches, which pyarrow streams, to numbers, labels, groups and parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.common import Array, Batch, Source, check_finite, numeric
from sources.table_codes import TableCodes, hash_groups, read_dates, read_numbers
from wsshards.errors import UserError, clip_text
from wsshards.manifest import Column
from wsshards.terms import DATE
from wssources.formats import MAX_CLASSES
from wssources.request import DROP, REFUSE, Request
from wssources.split import newest_keys
from wssources.split_settings import TEST, UNDECIDED, VALIDATION, TimeBounds, find_parts, fixed_parts
from wssources.table_plan import FILL_HELP, LABEL_HELP, TablePlan, leaves_out, may_miss

SIGNATURE_COLUMNS = 1_000  # a table of more numbers is one vector to a model


@dataclass(frozen=True)
class Place:
    """The origin of a batch, so that messages can name its rows; rows count from 1."""

    file: str
    start: int

    def __call__(self, row: int) -> str:
        """Return the name of a row of the batch, which count from 0."""
        return f"row {self.start + row + 1} of `{self.file}`"


@dataclass(frozen=True)
class FileBatch:
    """Consecutive rows of a file.

    Attributes:
        table: a record batch with the planned columns.
        place: where it begins.
        file: that it comes from.
        explain: finds the line of a fault.
    """

    table: Any
    place: Place
    file: Path
    explain: Callable[[UserError], UserError] | None = None


Stream = Callable[[TablePlan], Iterator[FileBatch]]


def make_source(request: Request, plan: TablePlan, width: int, stream: Stream) -> Source:
    """Return the source that a stream of record batches is.

    Args:
        request: what the user wants to read.
        plan: how the table is read.
        width: numbers in a row of one column of lists; else that of the plan.
        stream: yields the columns of a plan, which may be fewer.
    """
    parts = find_parts(request)
    codes = None if plan.listed else TableCodes(plan, request.seed)
    several, lost = plan.decision.several, Counter[str]()
    features = numeric(width)
    if codes is not None and (not plan.is_plain or width <= SIGNATURE_COLUMNS):
        columns = tuple(
            Column(name, kind, form=plan.date_forms.get(name, "")) for name, kind in plan.features.items()
        )
        features = replace(features, columns=columns)

    def batches() -> Iterator[Batch]:
        read = kept = 0
        for piece in stream(plan):
            try:
                made = _make_batch(request, plan, codes, piece, width=width, lost=lost)
            except UserError as error:
                raise (piece.explain(error) if piece.explain else error) from None
            read, kept = read + piece.table.num_rows, kept + len(made.features)
            part = parts.get(piece.file, UNDECIDED)
            if part:
                made = replace(made, parts=np.full(len(made.features), part, np.uint8))
            yield made
        if kept < read:
            lacking = "without a value in some column" if plan.missing == DROP else "without a label"
            lacking = f"outside the window or {lacking}" if plan.window else lacking
            print(f"left out: {read - kept:,} of {read:,} rows, {lacking}")

    return Source(
        plan.decision.task,
        features,
        plan.labels[0],
        batches,
        labels=plan.labels,
        classes=_find_classes(plan, stream) if several else (),
        decision=plan.decision,
        checked=plan.checked,
        codes=codes,
        fixed=fixed_parts(plan.bounds, parts.values()),
        bounds=plan.bounds,
        grouped=bool(plan.by),
        lost=lost,
    )


def _find_classes(plan: TablePlan, stream: Stream) -> tuple[str, ...]:
    """Return the classes of a column that has several a row, from a pass over that column alone."""
    only = replace(plan, features={}, listed="", by="", time="", bounds=None)
    found: set[str] = set()
    for piece in stream(only):
        table, _ = (
            _drop_rows(only, piece.table, piece.place, Counter()) if plan.window else (piece.table, None)
        )
        column = split_classes(table.column(plan.labels[0]), plan.decision.separator)
        found.update(
            str(value) for value in pc.unique(pc.list_flatten(column)).to_pylist() if value not in (None, "")
        )
        if len(found) > MAX_CLASSES:
            raise UserError(
                f"label `{clip_text(plan.labels[0])}` has more than {MAX_CLASSES:,} distinct classes",
                "name another column in `label`",
            )
    return tuple(sorted(found))


def split_classes(column: Any, separator: str) -> Any:
    """Return the classes of each row, as a column of lists of text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if is_list(kind):
        return column.cast(pa.list_(pa.string()))
    parts = pc.split_pattern(column.cast(pa.string()), separator)
    trimmed = pc.utf8_trim_whitespace(parts.flatten())
    return pa.ListArray.from_arrays(parts.offsets, trimmed)


def _make_batch(
    request: Request,
    plan: TablePlan,
    codes: TableCodes | None,
    piece: FileBatch,
    *,
    width: int,
    lost: Counter[str],
) -> Batch:
    table, place = _drop_rows(plan, piece.table, piece.place, lost)
    hashes = None
    if codes is None:
        values = stack_lists(table.column(plan.listed), plan.listed, place, width)
        check_finite(values, place)
    else:
        values, hashes = codes.encode(table, place)
        kept = _check_numbers(plan, values, place)
        if kept is not None:
            lost[""] += int((~kept).sum())
            values, hashes = values[kept], None if hashes is None else hashes[kept]
            table = table.filter(pa.array(kept))
    labels = [table.column(name) for name in plan.labels]
    parts = times = None
    if plan.by:
        hashes = hash_groups(table.column(plan.by), request.split.seed if request.split else 0)
    if plan.bounds is not None:
        times = _read_times(plan, plan.bounds, table, place)
        if plan.bounds.newest:
            hashes = newest_keys(times)
        else:
            parts = _divide_by_time(plan.bounds, times)
    return Batch(values, labels[0] if len(labels) == 1 else labels, hashes, parts, times)


def _drop_rows(
    plan: TablePlan, table: Any, place: Place, lost: Counter[str]
) -> tuple[Any, Callable[[int], str]]:
    """Drop rows outside the window and, where the plan says so, those without a value.

    Raises:
        UserError: a row lacks a value that it must have.
    """
    if plan.window is not None:  # rows outside are not lost, whatever they lack
        times = read_dates(table.column(plan.window.column), plan.window.column, place, plan.window.form)
        table, place = _select(table, place, (times >= plan.window.start) & (times <= plan.window.end))
    dropped: npt.NDArray[np.bool_] | None = None
    for name in plan.names:
        column = table.column(name)
        if not column.null_count:
            continue
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if not may_miss(plan, name):
            row = int(np.flatnonzero(missing)[0])
            raise UserError(
                f"{place(row)} has no value in column `{clip_text(name)}`",
                LABEL_HELP if name in plan.labels else FILL_HELP,
            )
        if leaves_out(plan, name):
            lost[name] += column.null_count
            lost[""] += int((missing if dropped is None else missing & ~dropped).sum())
            dropped = missing if dropped is None else dropped | missing
    return (table, place) if dropped is None else _select(table, place, ~dropped)


def _select(table: Any, place: Place, kept: npt.NDArray[np.bool_]) -> tuple[Any, Callable[[int], str]]:
    """The rows that are kept, and where each is from."""
    rows = np.flatnonzero(kept)
    return table.filter(pa.array(kept)), lambda row: place(int(rows[row]))


def _check_numbers(
    plan: TablePlan, values: Array, place: Callable[[int], str]
) -> npt.NDArray[np.bool_] | None:
    """Return the rows to keep if a number is missing and such rows are dropped, else None.

    Raises:
        UserError: naming the first row with an infinity, or with a NaN if that is refused.
    """
    if plan.missing == REFUSE:
        check_finite(values, place)
        return None
    infinite = np.isinf(values).any(axis=1)
    if infinite.any():
        raise UserError(
            f"{place(int(np.flatnonzero(infinite)[0]))} holds a number that is not finite", FILL_HELP
        )
    if plan.missing != DROP:
        return None
    missing: npt.NDArray[np.bool_] = np.isnan(values).any(axis=1)
    return ~missing if missing.any() else None


def _read_times(
    plan: TablePlan, bounds: TimeBounds, table: Any, place: Callable[[int], str]
) -> npt.NDArray[np.float64]:
    column = table.column(plan.time)
    if bounds.kind == DATE:
        times = read_dates(column, plan.time, place, bounds.form)
    else:
        times = np.asarray(read_numbers(column, plan.time, place), np.float64)
    if np.isnan(times).any():
        row = int(np.flatnonzero(np.isnan(times))[0])
        raise UserError(
            f"{place(row)} has no value in column `{clip_text(plan.time)}`", "rows are divided by it"
        )
    return times


def _divide_by_time(bounds: TimeBounds, times: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    parts = np.full(len(times), UNDECIDED, np.uint8)
    if bounds.validation is not None:
        parts[times >= bounds.validation] = VALIDATION
    if bounds.test is not None:
        parts[times >= bounds.test] = TEST
    return parts


def stack_lists(column: Any, name: str, place: Callable[[int], str], width: int) -> Array:
    """Stack one column of lists into one float32 array `[n, width]`; raises UserError for other lengths."""
    if not is_list(column.type):
        if len(column):
            raise UserError(
                f"{place(0)} has 1 value in `{clip_text(name)}`, the rows before it {width}", _SAME_LENGTH
            )
        return np.empty((0, width), np.float32)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False) if len(column) else np.empty(0)
    wrong = np.flatnonzero(lengths != width)
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{place(row)} has {int(lengths[row])} values in `{clip_text(name)}`, the rows before it {width}",
            _SAME_LENGTH,
        )
    values = read_numbers(column.flatten(), name, place)
    return np.ascontiguousarray(values.reshape(len(column), width), np.float32)


_SAME_LENGTH = "all rows must have the same number of features"


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is one of lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))

"""Labels of every task: what the spill keeps of them, and what the shards and the manifest get."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from classes import ClassIndex
from moments import Moments
from shards import Labels
from sources.common import Source
from sources.tables import split_classes
from spill import Rows

from wsshards import manifest as contents
from wsshards import terms
from wsshards.errors import UserError, clip_text
from wssources.request import first_line
from wssources.row_faults import check_rows

Array = npt.NDArray[Any]
I32 = npt.NDArray[np.int32]


class LabelEncoder(Protocol):
    """Encodes the labels of a task.

    Attributes:
        width: values that the spill keeps for a row, beside its code.
        dtype: NumPy name of their type.
        written: the labels on disk, or None for none.
    """

    width: int
    dtype: str
    written: Labels | None

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by the codes of :meth:`encode`."""

    def encode(self, labels: Any, first_row: int, count: int) -> tuple[I32, Array]:
        """Return the class `[n]` by which rows are split, and the values `[n, width]`; raises UserError."""

    def check(self, train: int, rows: int, source: str, shard_count: int) -> None:
        """Refuse data from which nothing can be learned, once all of it is known; raises UserError."""

    def decode(self, rows: Rows) -> Array:
        """Return the labels of rows as they are written."""

    def learn(self, labels: Array, training: npt.NDArray[np.int64]) -> None:
        """Take in the written labels of the training rows, in their final order."""

    def describe(self) -> contents.Label | None:
        """Return what the manifest says of the labels."""


def make_encoder(source: Source) -> LabelEncoder:
    """Return the encoder of a source's labels."""
    names = source.labels or ((source.label,) if source.label else ())
    if source.label is None:
        return NoLabels()
    if source.task == terms.REGRESSION:
        return TargetLabels(names)
    if source.task == terms.MULTI_LABEL:
        separator = source.decision.separator if source.decision else ""
        return ClassSets(names, source.classes, separator)
    return ClassLabels(source, names)


class NoLabels:
    """Rows without labels, of a language model."""

    width, dtype, written = 0, "float64", None
    classes = ()

    def encode(self, labels: Any, first_row: int, count: int) -> tuple[I32, Array]:  # noqa: ARG002
        """Return one class for all rows."""
        return np.zeros(count, np.int32), np.empty((count, 0))

    def check(self, train: int, rows: int, source: str, shard_count: int) -> None:
        """Refuse too few rows; raises UserError."""
        check_rows(train, [rows], (), source, shard_count)

    def decode(self, rows: Rows) -> Array:
        """Return what the writer leaves out."""
        return np.zeros(len(rows), np.int64)

    def learn(self, labels: Array, training: npt.NDArray[np.int64]) -> None:
        """Learn nothing."""

    def describe(self) -> contents.Label | None:
        """Return None."""
        return None


class ClassLabels:
    """One class for each row."""

    width, dtype = 0, "float64"

    def __init__(self, source: Source, names: tuple[str, ...]) -> None:
        self.written: Labels | None = Labels("int64")
        self._names, self._checked = names, source.checked
        self._index = ClassIndex(names[0], fractions=bool(source.decision) and not source.checked)
        self._classes: tuple[str, ...] = ()
        self._final: I32 = np.zeros(0, np.int32)

    @property
    def codes(self) -> dict[str, int]:
        """The number of each class in the codes of rows."""
        return self._index.codes

    def encode(self, labels: Any, first_row: int, count: int) -> tuple[I32, Array]:
        """Return the number of each row's class, in the order of their first rows; raises UserError."""
        return self._index.encode(labels, first_row), np.empty((count, 0))

    @property
    def classes(self) -> tuple[str, ...]:
        """The names, in the order of their first rows."""
        return tuple(self._index.codes)

    def check(self, train: int, rows: int, source: str, shard_count: int) -> None:  # noqa: ARG002
        """Refuse a single class, too few rows, and labels that are no classes after all; raises UserError."""
        self._classes, self._final = self._index.order()
        if self._checked:
            self._index.check_task()
        check_rows(train, [*self._index.rows] or [0], self._classes, source, shard_count)

    def decode(self, rows: Rows) -> Array:
        """Return the final numbers of the classes."""
        return self._final[rows.codes].astype(np.int64)

    def learn(self, labels: Array, training: npt.NDArray[np.int64]) -> None:
        """Learn nothing."""

    def describe(self) -> contents.Label | None:
        """Return the classes."""
        return contents.Label(self._names, self._classes)


class TargetLabels:
    """One or several numbers for each row, as they are."""

    dtype = "float64"
    classes = ()

    def __init__(self, names: tuple[str, ...]) -> None:
        self.width = len(names)
        self.written: Labels | None = Labels("float64", (len(names),))
        self._names, self._moments = names, Moments(len(names))

    def encode(self, labels: Any, first_row: int, count: int) -> tuple[I32, Array]:
        """Return one class for all rows, and their targets; raises UserError for what is not a number."""
        columns = labels if isinstance(labels, list) else [labels]
        values = np.empty((count, self.width))
        for place, (name, column) in enumerate(zip(self._names, columns, strict=True)):
            values[:, place] = _to_numbers(name, column, first_row)
        wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(wrong):
            row, place = int(wrong[0]), int(np.flatnonzero(~np.isfinite(values[wrong[0]]))[0])
            raise UserError(
                f"row {first_row + row + 1} has `{values[row, place]}` in label"
                f" `{clip_text(self._names[place])}`, which is not finite",
                "correct it, or leave the row out",
            )
        return np.zeros(count, np.int32), values

    def check(self, train: int, rows: int, source: str, shard_count: int) -> None:
        """Refuse too few rows; raises UserError."""
        check_rows(train, [rows], (), source, shard_count)

    def decode(self, rows: Rows) -> Array:
        """Return the targets."""
        return rows.labels

    def learn(self, labels: Array, training: npt.NDArray[np.int64]) -> None:
        """Sum up the targets of training rows."""
        self._moments.add(labels[training])

    def describe(self) -> contents.Label | None:
        """Return mean and deviation of the training rows; where all are the same the deviation is 1."""
        mean, deviation = self._moments.finish()
        spread = np.where(deviation > 0, deviation, 1.0)
        return contents.Label(self._names, (), tuple(mean.tolist()), tuple(spread.tolist()))


class ClassSets:
    """Any number of classes for each row: columns of 0 and 1, or one column of lists or joined text."""

    dtype = "uint8"

    def __init__(self, names: tuple[str, ...], classes: tuple[str, ...], separator: str) -> None:
        self._names, self.classes = names, classes or names
        self._listed, self._separator = bool(classes), separator
        self.width = len(self.classes)
        self.written: Labels | None = Labels("uint8", (self.width,))

    def encode(self, labels: Any, first_row: int, count: int) -> tuple[I32, Array]:
        """Return one class for all rows, and 0 or 1 for each class; raises UserError for other values."""
        if self._listed:
            return np.zeros(count, np.int32), self._mark(labels, count)
        values = np.zeros((count, self.width), np.uint8)
        columns = labels if isinstance(labels, list) else [labels]
        for place, (name, column) in enumerate(zip(self._names, columns, strict=True)):
            numbers = _to_numbers(name, column, first_row)
            wrong = np.flatnonzero((numbers != 0) & (numbers != 1))
            if len(wrong):
                raise UserError(
                    f"row {first_row + int(wrong[0]) + 1} has `{numbers[wrong[0]]:g}` in label"
                    f" `{clip_text(name)}`, which is neither 0 nor 1",
                    "correct it, or leave the column out of `label`",
                )
            values[:, place] = numbers
        return np.zeros(count, np.int32), values

    def _mark(self, labels: Any, count: int) -> Array:
        lists = split_classes(labels, self._separator)
        values = np.zeros((count, self.width), np.uint8)
        flat = lists.flatten()
        places = pc.index_in(flat, pa.array(self.classes, pa.string())).fill_null(-1)
        rows = np.repeat(np.arange(count), lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
        chosen = places.to_numpy(zero_copy_only=False)
        values[rows[chosen >= 0], chosen[chosen >= 0]] = 1
        return values

    def check(self, train: int, rows: int, source: str, shard_count: int) -> None:
        """Refuse too few rows; raises UserError."""
        check_rows(train, [rows], (), source, shard_count)

    def decode(self, rows: Rows) -> Array:
        """Return the marks."""
        return rows.labels

    def learn(self, labels: Array, training: npt.NDArray[np.int64]) -> None:
        """Learn nothing."""

    def describe(self) -> contents.Label | None:
        """Return the classes."""
        return contents.Label(self._names, self.classes)


_WORDS = pa.array(["true", "false"])


def _to_numbers(name: str, column: Any, first_row: int) -> npt.NDArray[np.float64]:
    """Return a column as numbers; true is 1, and false 0. Raises UserError."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise UserError(f"row {first_row + row + 1} has no label in `{clip_text(name)}`", "give it one")
    try:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = pc.utf8_trim_whitespace(column)
            lower = pc.utf8_lower(column)
            if pc.any(pc.is_in(lower, _WORDS)).as_py():
                column = pc.replace_substring(pc.replace_substring(lower, "true", "1"), "false", "0")
        if pa.types.is_boolean(kind):
            column = column.cast(pa.uint8())
        values: npt.NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise UserError(
            f"label `{clip_text(name)}` holds what is not a number, within {len(column):,} rows from row"
            f" {first_row + 1}: {first_line(str(error))}",
            "correct it, or say `task: classification`",
        ) from None
    return values

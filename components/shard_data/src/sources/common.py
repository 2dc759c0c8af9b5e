"""What every kind of source provides: numbered, checked batches of arrays, and errors that name the row."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blobs import REFERENCE_WIDTH, BlobFile

from wsshards.errors import UserError
from wsshards.manifest import Features
from wssources.split_settings import TimeBounds
from wssources.table_plan import FILL_HELP
from wssources.tasks import Decision

if TYPE_CHECKING:
    from sources.table_codes import TableCodes

Array = npt.NDArray[Any]
BATCH_BYTES = 8 << 20  # of features; large enough to be vectorised, small compared with a shard
# What libraries raise for damaged or malicious files.
FAULTS = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    SyntaxError,
    TypeError,
    KeyError,
    struct.error,
    zlib.error,
    pa.ArrowException,
    zipfile.BadZipFile,
)


@dataclass(frozen=True)
class Batch:
    """Consecutive rows.

    Attributes:
        features: `[n, width]`, as stored; of rows of any length, references to them in the source's blob.
        labels: an Arrow array `[n]`, a list of one for each label column, or None.
        hashes: `[n]`, what the rows are split by; None for the bytes of the features.
        parts: `[n]`, places in `SPLITS` to which a file, a date or a document puts rows; 0 leaves them to the
            hash, and to training where the source fills the other parts.
        times: `[n]`, where they divide the rows of a table.
    """

    features: Array
    labels: Any = None
    hashes: npt.NDArray[np.uint64] | None = None
    parts: npt.NDArray[np.uint8] | None = None
    times: npt.NDArray[np.float64] | None = None


def _write_nothing(_: Path) -> None:
    """Write no further files."""


@dataclass(frozen=True)
class Source:
    """A stream of rows and their description.

    Attributes:
        task: one of `wsshards.terms.TASKS`.
        features: what one row contains.
        label: name of the label, or None.
        batches: starts the stream; the order of the rows is always the same.
        labels: names of the targets or of the columns of classes, where they are several.
        classes: of several in one column, which are known before the rows are read.
        decision: how the task was chosen.
        checked: whether all labels must be of the kind that the first rows have.
        codes: what turns a table's columns into numbers.
        lost: cells without a value in rows that are left out, by column; by the empty name, these rows.
        fixed: parts that files, dates or documents fill.
        bounds: of the time that divides rows.
        grouped: whether rows are split by their groups.
        test_from: gives the earliest time of the documents that test, where rows are not divided one by one.
        blob: has the rows themselves where they are of any length.
        kind: format of its files; empty if it is built in.
        write: writes further files into the folder of shards, before the manifest.
    """

    task: str
    features: Features
    label: str | None
    batches: Callable[[], Iterator[Batch]]
    labels: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    decision: Decision | None = None
    checked: bool = False
    codes: TableCodes | None = None
    lost: Counter[str] = field(default_factory=Counter)
    fixed: frozenset[int] = frozenset()
    bounds: TimeBounds | None = None
    grouped: bool = False
    test_from: Callable[[], float | None] | None = None
    blob: BlobFile | None = None
    kind: str = ""
    write: Callable[[Path], None] = _write_nothing

    @property
    def row_layout(self) -> tuple[int, str]:
        """The number and the NumPy type of the values that are sorted for a row."""
        if self.blob is not None:
            return REFERENCE_WIDTH, "uint64"
        return self.features.width, self.features.disk_dtype


def numeric(width: int, *, shape: Sequence[int] = ()) -> Features:
    """Describe features of `width` numbers stored as float32."""
    return Features("features", "float32", tuple(shape) or (width,))


def rows_per_batch(row_bytes: int) -> int:
    """Return the number of rows in a batch of about `BATCH_BYTES`."""
    return max(1, BATCH_BYTES // max(row_bytes, 1))


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the same batches, and read the next one while the caller uses the current one."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def check_finite(values: Array, place: Callable[[int], str]) -> None:
    """Raise UserError for the first row with a NaN or an infinity; `place` names a row by index."""
    if values.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):
        total = values.sum()
    # A sum is finite only if its terms are, and needs no second array. It may overflow; then check each term.
    if not np.isfinite(total) and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise UserError(f"{place(row)} holds a number that is not finite", FILL_HELP)

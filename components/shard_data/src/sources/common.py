"""What every kind of source provides: numbered, checked batches of arrays, and errors that name the row."""

from __future__ import annotations

import difflib
import io
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wsshards.errors import UserError, clip_text
from wsshards.manifest import Features
from wsshards.regular_files import open_regular
from wssources.unpack_limits import LimitedGzip

Array = npt.NDArray[Any]
BATCH_BYTES = 8 << 20  # of features; large enough to be vectorised, small compared with a shard
BLOCK_BYTES = 8 << 20  # of text, parsed at a time: no line is longer
MAX_CLASSES = 10_000
MAX_COLUMNS = 100_000  # of a table; pyarrow needs 5 KB for each
ROW_SHARE = 16  # of the memory limit: reader, sorter and writer hold about this many copies of a row
_COMPARED = 10_000  # names that a misspelt name is compared with
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
    """Consecutive rows: features `[n, width]` as stored, labels as an Arrow array `[n]` or None."""

    features: Array
    labels: Any = None


@dataclass(frozen=True)
class Source:
    """A stream of rows and their description.

    Attributes:
        task: `classification` or `language_model`.
        features: what one row contains.
        label: name of the label, or None.
        batches: starts the stream; the order of the rows is always the same.
    """

    task: str
    features: Features
    label: str | None
    batches: Callable[[], Iterator[Batch]]


class Files(Sequence[Path]):
    """Files of a folder, stored as names, because millions of path objects would take gigabytes."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root, self._names = root, names

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> Files: ...
    def __getitem__(self, index: int | slice) -> Path | Files:
        if isinstance(index, slice):
            return Files(self._root, self._names[index])
        return self._root / self._names[index]


@dataclass(frozen=True)
class Request:
    """What the user wants to read; `memory` is the limit in bytes."""

    root: Path
    files: Sequence[Path]
    label: str
    features: tuple[str, ...]
    sequence_length: int
    memory: int

    def show(self, path: Path) -> str:
        """Return the name of a file in messages: its path inside the data."""
        if path == self.root:
            return path.name
        return path.relative_to(self.root).as_posix()


def check_row(what: str, row_bytes: int, memory: int) -> None:
    """Raise UserError if a row is empty or too large for the memory limit."""
    if row_bytes < 1:
        raise UserError(f"{what} has no values", "give every row at least one number")
    if row_bytes > memory // ROW_SHARE:
        limit, need = memory >> 20, -(-row_bytes * ROW_SHARE >> 20)
        raise UserError(
            f"{what} takes {row_bytes:,} bytes, and a `memory_limit_mib` of {limit:,} has room for rows of "
            f"{memory // ROW_SHARE:,}",
            f"make the rows smaller, or give a `memory_limit_mib` of at least {need:,}",
        )


def numeric(width: int, *, shape: Sequence[int] = ()) -> Features:
    """Describe features of `width` numbers stored as float32."""
    return Features("features", "float32", tuple(shape) or (width,))


def rows_per_batch(row_bytes: int) -> int:
    """Return the number of rows in a batch of about `BATCH_BYTES`."""
    return max(1, BATCH_BYTES // max(row_bytes, 1))


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `did you mean …` for a misspelt word, else the list of options."""
    names = list(islice(known, _COMPARED))
    close = difflib.get_close_matches(clip_text(word), [name for name in names if len(name) <= 100], n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    shown = ", ".join(f"`{clip_text(name)}`" for name in names[:12])
    return f"there is {shown}{' and more' if len(names) > 12 else ''}" if names else "there is none"


def choose_columns(request: Request, file: Path, columns: Sequence[str]) -> list[str]:
    """Return the feature columns of a table: the requested ones, or all except the label.

    Raises:
        UserError: the label or a feature is not a column, no feature is left, or there are too many.
    """
    if len(columns) > MAX_COLUMNS:
        raise UserError(
            f"`{request.show(file)}` has {len(columns):,} columns, and may have {MAX_COLUMNS:,}",
            "keep the features of a row as one list of numbers, in Parquet, JSON Lines or `.npz`",
        )
    counts = Counter(columns)
    for name in (request.label, *request.features):
        if name not in counts:
            kind = "label" if name == request.label else "feature"
            raise UserError(
                f"`{request.show(file)}` has no {kind} column `{clip_text(name)}`", suggest(name, columns)
            )
    if request.label in request.features:
        raise UserError(
            f"column `{request.label}` is both the label and a feature",
            "leave it out of `features`: a model that sees the answer learns nothing",
        )
    chosen = list(request.features) or [name for name in columns if name != request.label]
    if not chosen:
        raise UserError(
            f"`{request.show(file)}` has no column but the label `{request.label}`",
            "add at least one column of numbers",
        )
    repeated = min((name for name in chosen if counts[name] > 1), default=None)
    if repeated is not None:
        raise UserError(
            f"`{request.show(file)}` has two columns called `{clip_text(repeated)}`",
            "give every column its own name",
        )
    return chosen


def same_columns(
    request: Request, first: Path, expected: Sequence[str], file: Path, columns: Sequence[str]
) -> None:
    """Raise UserError if a file lacks a column that the first file has."""
    there = set(columns)
    missing = next((name for name in expected if name not in there), None)
    if missing is not None:
        raise UserError(
            f"`{request.show(file)}` has no column `{clip_text(missing)}`, and `{request.show(first)}` has",
            "files of one data set must have the same columns",
        )


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
        raise UserError(
            f"{place(row)} holds a number that is not finite", "fill or drop missing values before sharding"
        )


def is_packed(file: Path) -> bool:
    """Return whether a text file is compressed with gzip."""
    return file.suffix.lower() == ".gz"


def open_data(file: Path) -> IO[bytes]:
    """Open a regular file and decompress it if needed; reading it raises only OSError."""
    stream = open_regular(file)
    return io.BufferedReader(LimitedGzip(stream), 1 << 20) if is_packed(file) else stream


def unreadable(name: str, reason: object) -> UserError:
    """Return the error for a file that cannot be opened or decoded."""
    text = (reason.strerror or str(reason)) if isinstance(reason, OSError) else str(reason)
    if isinstance(reason, RecursionError):
        text = "it is nested too deeply"
    return UserError(
        f"cannot read `{name}`: {first_line(text)}", "check that the file is whole and is what its name says"
    )


def first_line(text: str) -> str:
    """Return the first line of a library's message, at most 160 characters, as part of a sentence."""
    line = text.strip().splitlines()[0] if text.strip() else "unknown reason"
    return line[:160].rstrip(". ")

"""What every kind of source gives: numbered batches of plain arrays, checked, with faults told by place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wsshards.errors import UserError
from wsshards.manifest import Features

Array = npt.NDArray[Any]
BATCH_BYTES = 8 << 20  # of features; large enough to be vectorised, small beside a shard
MAX_CLASSES = 10_000


@dataclass(frozen=True)
class Batch:
    """Consecutive rows: features `[n, width]` as they are stored, labels as an Arrow array `[n]` or None."""

    features: Array
    labels: Any = None


@dataclass(frozen=True)
class Source:
    """A stream of rows and what they are.

    Attributes:
        task: `classification` or `language_model`.
        features: what one row holds.
        label: name of the label, or None.
        batches: starts the stream; rows always come in the same order.
    """

    task: str
    features: Features
    label: str | None
    batches: Callable[[], Iterator[Batch]]


@dataclass(frozen=True)
class Request:
    """What the user asked to read."""

    root: Path
    files: tuple[Path, ...]
    label: str
    features: tuple[str, ...]
    sequence_length: int

    def show(self, path: Path) -> str:
        """How messages call a file: its path inside the data."""
        if path == self.root:
            return path.name
        return path.relative_to(self.root).as_posix()


def numeric(width: int, *, shape: Sequence[int] = ()) -> Features:
    """Features of `width` numbers kept as float32."""
    return Features("features", "float32", tuple(shape) or (width,))


def rows_per_batch(row_bytes: int) -> int:
    """Rows in a batch of about `BATCH_BYTES`."""
    return max(1, BATCH_BYTES // max(row_bytes, 1))


def suggest(word: str, known: Iterable[str]) -> str:
    """`did you mean …` for a misspelt word, else the list of what there is."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    shown = ", ".join(f"`{name}`" for name in names[:12])
    return f"there is {shown}{' and more' if len(names) > 12 else ''}" if names else "there is none"


def choose_columns(request: Request, file: Path, columns: Sequence[str]) -> list[str]:
    """The feature columns of a table: those asked for, or all but the label.

    Raises:
        UserError: the label or a feature is not a column, or no feature is left.
    """
    for name in (request.label, *request.features):
        if name not in columns:
            kind = "label" if name == request.label else "feature"
            raise UserError(f"`{request.show(file)}` has no {kind} column `{name}`", suggest(name, columns))
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
    repeated = sorted({name for name in chosen if list(columns).count(name) > 1})
    if repeated:
        raise UserError(
            f"`{request.show(file)}` has two columns called `{repeated[0]}`", "give every column its own name"
        )
    return chosen


def same_columns(
    request: Request, first: Path, expected: Sequence[str], file: Path, found: Sequence[str]
) -> None:
    """Raise UserError when a further file lacks a column that the first one has."""
    missing = [name for name in expected if name not in found]
    if missing:
        raise UserError(
            f"`{request.show(file)}` has no column `{missing[0]}`, and `{request.show(first)}` has",
            "files of one data set must have the same columns",
        )


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, the next one being read while the caller works on this one."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def check_finite(values: Array, place: Callable[[int], str]) -> None:
    """Raise UserError for the first row that holds a NaN or an infinity; `place` names a row by index."""
    if values.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):
        total = values.sum()
    # A sum is finite only if its terms are, and needs no second array. It may overflow, so then look closer.
    if not np.isfinite(total) and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise UserError(
            f"{place(row)} holds a number that is not finite", "fill or drop missing values before sharding"
        )


def unreadable(name: str, reason: object) -> UserError:
    """A file that cannot be opened or decoded."""
    text = (reason.strerror or str(reason)) if isinstance(reason, OSError) else str(reason)
    return UserError(
        f"cannot read `{name}`: {first_line(text)}", "check that the file is whole and is what its name says"
    )


def first_line(text: str) -> str:
    """The first line of a library's message, at most 120 characters, as part of a sentence."""
    line = text.strip().splitlines()[0] if text.strip() else "unknown reason"
    return line[:120].rstrip(". ")

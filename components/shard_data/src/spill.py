"""Sorts more rows than fit in memory: sorted runs go to temporary files and are merged by key range.

Shuffling is sorting by a random key. Keys are uniform over 64 bits, so a slice of the key space is about
the same small part of every run, and one slice of all runs fits in memory.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from wssources.split import U64

Array = npt.NDArray[Any]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


_WRITE_ROWS = 1 << 14  # gathered and written at a time: small enough for the processor's cache


@dataclass(frozen=True)
class Rows:
    """Rows: sort keys, content hashes, class codes and parts `[n]`; labels and features `[n, width]`."""

    keys: U64
    hashes: U64
    codes: I32
    parts: U8
    labels: Array
    features: Array

    def __len__(self) -> int:
        return len(self.keys)

    def columns(self) -> tuple[Array, ...]:
        """Return the arrays in the order in which they are written."""
        return self.keys, self.hashes, self.codes, self.parts, self.labels, self.features

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows from `start` up to, but not including, `stop` as views."""
        return Rows(*(column[start:stop] for column in self.columns()))


class Spill:
    """Stores rows in any order and returns them by ascending key.

    Up to `limit` bytes stay in memory, in one buffer that is reused. Further rows go to unnamed temporary
    files, which the system removes when the process ends.
    """

    def __init__(self, width: int, dtype: str, limit: int, labels: tuple[int, str] = (0, "float64")) -> None:
        row_bytes = 21 + width * np.dtype(dtype).itemsize + labels[0] * np.dtype(labels[1]).itemsize
        self._room = max(1, limit // row_bytes)
        # Pages of an empty array take no memory until they are written.
        self._buffer = Rows(
            np.empty(self._room, np.uint64),
            np.empty(self._room, np.uint64),
            np.empty(self._room, np.int32),
            np.empty(self._room, np.uint8),
            np.empty((self._room, labels[0]), labels[1]),
            np.empty((self._room, width), dtype),
        )
        self._filled = 0
        self._closing = ExitStack()
        self._files: list[IO[bytes]] = []
        self._runs: list[int] = []  # first row of each run
        self.rows = 0

    def put(self, rows: Rows) -> None:
        """Add rows."""
        start = 0
        while start < len(rows):
            if self._filled == self._room:
                self._write_run()
            count = min(len(rows) - start, self._room - self._filled)
            target = self._buffer.part(self._filled, self._filled + count)
            for mine, theirs in zip(target.columns(), rows.part(start, start + count).columns(), strict=True):
                mine[:] = theirs
            self._filled += count
            self.rows += count
            start += count

    def index(self) -> Iterator[Rows]:
        """Yield all rows in pieces, of which only hashes, codes and parts are read from disk.

        Every call starts from the beginning, and the next piece overwrites this one.
        """
        yield from self._sequence((1, 2, 3))

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows in pieces, without their keys; like :meth:`index`."""
        yield from self._sequence((1, 2, 3, 4, 5))

    def _sequence(self, columns: tuple[int, ...]) -> Iterator[Rows]:
        if not self._files:
            yield self._buffer.part(0, self._filled)
            return
        self._write_run()
        for start in range(0, self.rows, self._room):
            piece = self._buffer.part(0, min(self._room, self.rows - start))
            for number in columns:
                self._read(number, start, piece.columns()[number])
            yield piece

    def ordered(self) -> Iterator[tuple[Rows, I64]]:
        """Yield all rows by ascending key: pieces of rows, each with the order in which to take them.

        The next piece overwrites this one.
        """
        if not self._files:
            rows = self._buffer.part(0, self._filled)
            yield rows, np.argsort(rows.keys)
            return
        self._write_run()
        # Nine tenths: pieces are equal ranges of random keys, so they differ a little in length.
        count = -(-self.rows * 10 // (self._room * 9))
        stops = self._stops(count)
        for piece in range(count):
            rows = self._fetch([(int(run[piece]), int(run[piece + 1])) for run in stops])
            yield rows, np.argsort(rows.keys)

    def close(self) -> None:
        """Close the temporary files."""
        self._closing.close()
        self._files = []

    def _new_file(self) -> IO[bytes]:
        return self._closing.enter_context(tempfile.TemporaryFile())

    def _write_run(self) -> None:
        if not self._filled:
            return
        if not self._files:
            # `close` closes them; their names are already removed.
            self._files = [self._new_file() for _ in self._buffer.columns()]
        rows = self._buffer.part(0, self._filled)
        order = np.argsort(rows.keys)
        for column, file in zip(rows.columns(), self._files, strict=True):
            file.seek(0, os.SEEK_END)
            for start in range(0, len(order), _WRITE_ROWS):
                file.write(column[order[start : start + _WRITE_ROWS]].data if column.size else b"")
            file.flush()
        self._runs.append(self.rows - self._filled)
        self._filled = 0

    def _read(self, column: int, start: int, out: Array) -> None:
        """Fill `out` with the rows of a column from `start` on."""
        row_bytes = out.itemsize * (out.shape[1] if out.ndim > 1 else 1)
        file = self._files[column]
        file.seek(start * row_bytes)
        if out.nbytes and file.readinto(out.reshape(-1).view(np.uint8).data) != out.nbytes:  # type: ignore[attr-defined]
            raise OSError(errno.EIO, "a temporary file is shorter than what was written to it")

    def _fetch(self, spans: list[tuple[int, int]]) -> Rows:
        total = sum(stop - start for start, stop in spans)
        rows = self._buffer.part(0, total)
        if total > self._room:  # cannot happen with many rows; with a handful it is harmless
            rows = Rows(*(np.empty((total, *column.shape[1:]), column.dtype) for column in rows.columns()))
        at = 0
        for start, stop in spans:
            part = rows.part(at, at + stop - start)
            for number, column in enumerate(part.columns()):
                self._read(number, start, column)
            at += stop - start
        return rows

    def _stops(self, pieces: int) -> list[I64]:
        """Return, for each run, the row at which the key range of each piece begins, and the end."""
        bounds = np.array([(index << 64) // pieces for index in range(1, pieces)], np.uint64)
        stops = []
        for start, end in zip(self._runs, [*self._runs[1:], self.rows], strict=True):
            keys = self._buffer.keys[: end - start]
            self._read(0, start, keys)
            stops.append(np.concatenate([[start], start + np.searchsorted(keys, bounds), [end]]))
        return stops

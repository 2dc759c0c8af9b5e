"""Writes the shards of one split: equal files, each renamed to its final name when it is complete."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wsshards.manifest import FEED_NAME, Features, Shard, Split
from wsshards.terms import GROUP_COLUMN, HASH_COLUMN, LABEL_COLUMN, SPLITS
from wsshards.verify import hash_file
from wsshards.whole_file import sync

Array = npt.NDArray[Any]
BATCH_BYTES = 16 << 20  # of features in one record batch; part of the format, so it must not depend on memory
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True)
class Labels:
    """The labels on disk: NumPy name of their type, and the dimensions of one row's."""

    dtype: str
    shape: tuple[int, ...] = ()


def shard_sizes(rows: int, shards: int) -> list[int]:
    """Return the rows of each shard: as equal as possible, longer ones first; empty if there are no rows."""
    if rows == 0:
        return []
    base, longer = divmod(rows, shards)
    return [base + (index < longer) for index in range(shards)]


class SplitWriter:
    """Takes rows in their final order and divides them into shard files.

    The caller's thread gathers rows while the pool writes and hashes. A file is
    written under a temporary name, flushed to disk and renamed.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        sizes: Sequence[int],
        features: Features,
        labels: Labels | None,
        *,
        key: str,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._root, self._name, self._sizes = folder, name, sizes
        self._key = key
        self._features, self._labels, self._pool = features, labels, pool
        row_bytes = features.width * np.dtype(features.disk_dtype).itemsize
        self._batch_rows = max(1, BATCH_BYTES // row_bytes)
        batch = min(self._batch_rows, max(sizes, default=0))
        marks = labels or Labels("int64")
        self._ring = [
            (
                np.empty((batch, features.width), features.disk_dtype),
                np.empty((batch, *marks.shape), marks.dtype),
                np.empty(batch if key else 0, np.uint64),
            )
            for _ in range(2)
        ]
        self._done: list[Future[Shard]] = []
        self._last: Future[Any] | None = None
        self._open: Any = None
        self._left = 0  # rows still to come in the open shard
        self._filled = 0
        self._buffers: tuple[Array, Array, Array] | None = None
        (folder / name).mkdir(parents=True, exist_ok=True)

    def add(self, features: Array, labels: Array, hashes: Array, order: npt.NDArray[np.int64]) -> None:
        """Append the rows `order` of `features` `[n, width]`, `labels` `[n, *shape]` and `hashes` `[n]`."""
        start = 0
        while start < len(order):
            values, marks, keys = self._buffers or self._next_buffers()
            count = min(len(order) - start, len(values) - self._filled)
            chosen, span = order[start : start + count], slice(self._filled, self._filled + count)
            np.take(features, chosen, axis=0, out=values[span], mode="clip")
            np.take(labels, chosen, axis=0, out=marks[span], mode="clip")
            if self._key:
                np.take(hashes, chosen, out=keys[span], mode="clip")
            self._filled += count
            start += count
            if self._filled == len(values):
                self._flush(values, marks, keys)

    def finish(self) -> Split:
        """Wait until every shard is on disk; raises the OSError of the first that failed."""
        shards = tuple(future.result() for future in self._done)
        return Split(sum(shard.rows for shard in shards), shards)

    def _next_buffers(self) -> tuple[Array, Array, Array]:
        if self._left == 0:
            index = len(self._done)
            self._left = self._sizes[index]
            self._open = ShardFile(
                self._root,
                f"{self._name}/shard-{index:05d}.arrow",
                self._left,
                self._features,
                self._labels,
                key=self._key,
            )
        rows = min(self._batch_rows, self._left)
        self._filled = 0
        # Two buffers alternate: one is filled while the other is written.
        self._ring.reverse()
        values, marks, keys = self._ring[0]
        self._buffers = values[:rows], marks[:rows], keys[:rows]
        return self._buffers

    def _flush(self, values: Array, marks: Array, keys: Array) -> None:
        if self._last is not None:
            self._last.result()  # at most one batch waits: limits memory, reports a full disk soon
        file, self._buffers = self._open, None
        self._left -= len(values)
        self._last = self._pool.submit(file.write, values, marks, keys)
        if self._left == 0:
            self._last.result()
            self._done.append(self._pool.submit(file.close))


class ShardFile:
    """One Arrow IPC file under a temporary name."""

    def __init__(
        self,
        root: Path,
        path: str,
        rows: int,
        features: Features,
        labels: Labels | None,
        *,
        key: str = "",
    ) -> None:
        self._path, self._rows = path, rows
        self._final = root / path
        self._temporary = self._final.with_name(f".{self._final.name}.part")
        values = pa.binary() if features.encoded else _column_type(features.disk_dtype, (features.width,))
        fields = [pa.field(features.name, values, nullable=False)]
        if labels is not None:
            fields.append(pa.field(LABEL_COLUMN, _column_type(labels.dtype, labels.shape), nullable=False))
        if key:
            fields.append(pa.field(key, pa.uint64(), nullable=False))
        self.schema = pa.schema(fields)
        self._sink = pa.OSFile(str(self._temporary), "wb")
        self._writer = pa.ipc.new_file(self._sink, self.schema)

    def write(self, values: Array, marks: Array, keys: Array) -> None:
        """Write features `[n, width]`, labels and keys, as far as there are such, as a record batch."""
        arrays = {LABEL_COLUMN: marks, GROUP_COLUMN: keys, HASH_COLUMN: keys}
        self.write_columns([make_column(arrays.get(field.name, values), field.type) for field in self.schema])

    def write_columns(self, columns: Sequence[Any]) -> None:
        """Write Arrow arrays as a record batch."""
        self._writer.write_batch(pa.record_batch(list(columns), schema=self.schema))

    def close(self) -> Shard:
        """Flush the file to disk and give it its final name."""
        self._writer.close()
        self._sink.close()
        sync(self._temporary)
        digest, size = hash_file(self._temporary), self._temporary.stat().st_size
        self._temporary.rename(self._final)
        return Shard(self._path, self._rows, size, digest)


def _column_type(dtype: str, shape: tuple[int, ...]) -> Any:
    kind = pa.from_numpy_dtype(dtype)
    return pa.list_(kind, math.prod(shape)) if shape else kind


def make_column(values: Array, kind: Any) -> Any:
    """Return an array `[n]` or `[n, …]` as an Arrow array of a type."""
    flat = pa.array(values.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, type=kind) if values.ndim > 1 else flat


def clear(folder: Path, keep: Sequence[str] = ()) -> None:
    """Remove the shards and temporary files of an earlier or failed run, except those in `keep`."""
    for name in SPLITS:
        for file in [*(folder / name).glob("shard-*.arrow"), *(folder / name).glob(".shard-*.part")]:
            if file.relative_to(folder).as_posix() not in keep:
                file.unlink(missing_ok=True)
    for name in (TOKENIZER_FILE, FEED_NAME):
        if name not in keep:
            (folder / name).unlink(missing_ok=True)

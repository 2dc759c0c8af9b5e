"""Writes shards whose rows are files of pictures, of any length: a binary column of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from blobs import BlobFile
from shards import BATCH_BYTES, Labels, ShardFile, SplitWriter, make_column
from sources.common import Source

from wsshards.manifest import Features, Shard, Split
from wsshards.terms import GROUP_COLUMN, HASH_COLUMN

Array = npt.NDArray[Any]


def make_writer(
    folder: Path,
    name: str,
    sizes: Sequence[int],
    source: Source,
    labels: Labels | None,
    *,
    hashed: bool,
    pool: ThreadPoolExecutor,
) -> SplitWriter | EncodedWriter:
    """Return the writer of one split of a source; rows have their group, or if ``hashed`` their hash."""
    key = GROUP_COLUMN if source.grouped else HASH_COLUMN if hashed else ""
    if source.blob is None:
        return SplitWriter(folder, name, sizes, source.features, labels, key=key, pool=pool)
    return EncodedWriter(
        folder,
        name,
        sizes,
        source.features,
        labels,
        key=key,
        blob=source.blob,
        pool=pool,
    )


class EncodedWriter:
    """Takes references to rows in their final order, and writes the rows themselves as shards.

    Two record batches of `BATCH_BYTES`, or of a single row, are in memory: one is read while the other is
    written.
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
        blob: BlobFile,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._root, self._name, self._sizes = folder, name, sizes
        self._features, self._labels, self._blob, self._pool = features, labels, blob, pool
        self._key = key
        self._waiting: list[tuple[Array, Array, Array]] = []  # references, labels and keys to come
        self._bytes = self._left = 0
        self._open: ShardFile | None = None
        self._last: Future[None] | None = None
        self._done: list[Future[Shard]] = []
        (folder / name).mkdir(parents=True, exist_ok=True)

    def add(self, features: Array, labels: Array, hashes: Array, order: npt.NDArray[np.int64]) -> None:
        """Append the rows `order` of references `[n, 3]`, labels `[n, …]` and hashes `[n]`."""
        ends = np.cumsum(features[order, 1].astype(np.int64))
        start, before = 0, 0
        while start < len(order):
            if self._open is None:
                self._left = self._sizes[len(self._done)]
                path = f"{self._name}/shard-{len(self._done):05d}.arrow"
                self._open = ShardFile(
                    self._root, path, self._left, self._features, self._labels, key=self._key
                )
            # Up to the row that fills the batch, or the shard.
            full = int(np.searchsorted(ends, before + BATCH_BYTES - self._bytes)) + 1
            stop = min(full, start + self._left, len(order))
            chosen = order[start:stop]
            self._waiting.append((features[chosen], labels[chosen], hashes[chosen]))
            self._bytes += int(ends[stop - 1]) - before
            self._left -= stop - start
            start, before = stop, int(ends[stop - 1])
            if self._bytes >= BATCH_BYTES or self._left == 0:
                self._flush(self._open)

    def finish(self) -> Split:
        """Wait until every shard is on disk; raises the OSError of the first that failed."""
        shards = tuple(future.result() for future in self._done)
        return Split(sum(shard.rows for shard in shards), shards)

    def _flush(self, file: ShardFile) -> None:
        references, marks, keys = (np.concatenate(each) for each in zip(*self._waiting, strict=True))
        columns = [self._blob.read(references)]
        if self._labels is not None:
            columns.append(make_column(marks.astype(self._labels.dtype), file.schema.field(1).type))
        if self._key:
            columns.append(make_column(keys, file.schema.field(self._key).type))
        if self._last is not None:
            self._last.result()  # at most one batch waits: limits memory, reports a full disk soon
        self._last = self._pool.submit(file.write_columns, columns)
        self._waiting, self._bytes = [], 0
        if self._left == 0:
            self._last.result()
            self._done.append(self._pool.submit(file.close))
            self._open = None

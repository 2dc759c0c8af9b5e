"""Writes shards whose rows are files of pictures, of any length: a binary column of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blobs import BlobFile
from shards import BATCH_BYTES, Labels, ShardFile, SplitWriter, make_column
from sources.common import Source

from wsshards.manifest import Features, Shard, Split

Array = npt.NDArray[Any]


def make_writer(
    folder: Path,
    name: str,
    sizes: Sequence[int],
    source: Source,
    labels: Labels | None,
    *,
    pool: ThreadPoolExecutor,
) -> SplitWriter | EncodedWriter:
    """Return the writer of one split of a source."""
    if source.blob is None:
        return SplitWriter(folder, name, sizes, source.features, labels, pool=pool)
    return EncodedWriter(folder, name, sizes, source.features, labels, blob=source.blob, pool=pool)


class EncodedWriter:
    """Takes references to rows in their final order, and writes the rows themselves as shards.

    At most one record batch of `BATCH_BYTES`, or a single row, is in memory.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        sizes: Sequence[int],
        features: Features,
        labels: Labels | None,
        *,
        blob: BlobFile,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._root, self._name, self._sizes = folder, name, sizes
        self._features, self._labels, self._blob, self._pool = features, labels, blob, pool
        self._rows: list[bytes] = []
        self._marks: list[Array] = []
        self._bytes = self._left = 0
        self._open: ShardFile | None = None
        self._done: list[Future[Shard]] = []
        (folder / name).mkdir(parents=True, exist_ok=True)

    def add(self, features: Array, labels: Array, order: npt.NDArray[np.int64]) -> None:
        """Append the rows `order` of references `[n, 3]` and labels `[n, …]`."""
        for number in order:
            if self._open is None:
                self._left = self._sizes[len(self._done)]
                path = f"{self._name}/shard-{len(self._done):05d}.arrow"
                self._open = ShardFile(self._root, path, self._left, self._features, self._labels)
            row = self._blob.read(features[number])
            self._rows.append(row)
            self._marks.append(labels[number])
            self._bytes += len(row)
            self._left -= 1
            if self._bytes >= BATCH_BYTES or self._left == 0:
                self._flush(self._open)
            if self._left == 0:
                self._done.append(self._pool.submit(self._open.close))
                self._open = None

    def finish(self) -> Split:
        """Wait until every shard is on disk; raises the OSError of the first that failed."""
        shards = tuple(future.result() for future in self._done)
        return Split(sum(shard.rows for shard in shards), shards)

    def _flush(self, file: ShardFile) -> None:
        columns = [pa.array(self._rows, pa.binary())]
        if self._labels is not None:
            marks = np.asarray(self._marks, self._labels.dtype)
            columns.append(make_column(marks, file.schema.field(1).type))
        file.write_columns(columns)
        self._rows, self._marks, self._bytes = [], [], 0

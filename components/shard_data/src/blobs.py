"""Rows of any length, kept in one temporary file; what is sorted in their place is where they are."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

References = npt.NDArray[np.uint64]
REFERENCE_WIDTH = 3  # offset, length and hash of the content


class BlobRow(NamedTuple):
    """A row and the hash of its content."""

    content: bytes
    digest: int


def hash_content(content: bytes) -> BlobRow:
    """Return a row with 64 bits of its hash; equal rows have equal ones."""
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return BlobRow(content, int.from_bytes(digest, "little"))


class BlobFile:
    """An unnamed temporary file, which the system removes when the process ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=1 << 20)  # noqa: SIM115 - `close` closes it
        self._size = 0

    def append(self, rows: Sequence[BlobRow]) -> References:
        """Write rows, and return a reference `[n, 3]` to each."""
        references = np.empty((len(rows), REFERENCE_WIDTH), np.uint64)
        lengths = np.array([len(row.content) for row in rows], np.uint64)
        references[:, 0] = self._size + np.cumsum(lengths) - lengths
        references[:, 1] = lengths
        references[:, 2] = [row.digest for row in rows]
        for row in rows:
            self._file.write(row.content)
        self._file.flush()
        self._size += int(lengths.sum())
        return references

    def read(self, references: References) -> Any:
        """Return the rows of references `[n, 3]` as a binary Arrow array; raises OSError if it cannot."""
        offsets = np.concatenate([[0], np.cumsum(references[:, 1])]).astype(np.int32)
        target = pa.allocate_buffer(int(offsets[-1]))
        view, number = memoryview(target), self._file.fileno()
        places = zip(references[:, 0].tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        for place, start, stop in places:
            if os.preadv(number, [view[start:stop]], place) != stop - start:
                raise OSError(errno.EIO, "a temporary file is shorter than what was written to it")
        buffers = [None, pa.py_buffer(offsets), target]
        return pa.Array.from_buffers(pa.binary(), len(references), buffers)

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()

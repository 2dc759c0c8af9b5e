"""Rows of any length, kept in one temporary file; what is sorted in their place is where they are."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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

    def read(self, reference: npt.NDArray[np.uint64]) -> bytes:
        """Return the row of a reference `[3]`; raises OSError if it cannot be read."""
        offset, length = int(reference[0]), int(reference[1])
        data = os.pread(self._file.fileno(), length, offset)
        if len(data) != length:
            raise OSError(errno.EIO, "a temporary file is shorter than what was written to it")
        return data

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()

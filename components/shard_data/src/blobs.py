"""Rows of any length, kept in one temporary file; what is sorted in their place is where they are."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

References = npt.NDArray[np.uint64]
REFERENCE_WIDTH = 3  # offset, length and hash of the content


class BlobFile:
    """An unnamed temporary file, which the system removes when the process ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._size = 0

    def append(self, rows: Sequence[bytes]) -> References:
        """Write rows, and return a reference `[n, 3]` to each."""
        references = np.empty((len(rows), REFERENCE_WIDTH), np.uint64)
        for number, row in enumerate(rows):
            digest = int.from_bytes(hashlib.blake2b(row, digest_size=8).digest(), "little")
            references[number] = (self._size, len(row), digest)
            self._file.write(row)
            self._size += len(row)
        self._file.flush()
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

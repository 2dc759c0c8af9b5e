"""Rows of any length, kept in one temporary file; what is sorted in their place is where they are.

A row that is a whole file of the source is not copied if the source is on the disk of the temporary file: it
is read again when its shard is written, which spares the disk as many bytes as the source has. A file of
another disk is copied, since one of a mounted store is slow to open twice.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wsshards.errors import UserError
from wsshards.regular_files import open_regular

References = npt.NDArray[np.uint64]
REFERENCE_WIDTH = 3  # offset, length and hash of the content

_FILE = 1 << 63  # of an offset: the rest is the number of a file of the source


class BlobRow(NamedTuple):
    """A row, the hash of its content, and the file of the source that has nothing else."""

    content: bytes
    digest: int
    file: SourceFile | None = None


class SourceFile(NamedTuple):
    """A file as it was before it was read."""

    path: Path
    disk: int
    modified: int  # nanoseconds


def find_file(path: Path) -> SourceFile:
    """Return a file of the source as it is; raises OSError if it is missing."""
    status = path.stat()
    return SourceFile(path, status.st_dev, status.st_mtime_ns)


def hash_content(content: bytes, file: SourceFile | None = None) -> BlobRow:
    """Return a row with 64 bits of its hash; equal rows have equal ones."""
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return BlobRow(content, int.from_bytes(digest, "little"), file)


class BlobFile:
    """An unnamed temporary file, which the system removes when the process ends, and files of the source.

    Args:
        show: Returns the name of a file of the source in a message.
    """

    def __init__(self, show: Callable[[Path], str]) -> None:
        self._show = show
        self._file = tempfile.TemporaryFile(buffering=1 << 20)  # noqa: SIM115 - `close` closes it
        self._disk = os.fstat(self._file.fileno()).st_dev
        self._size = 0
        self._paths: list[Path] = []
        self._modified = array("q")

    def append(self, rows: Sequence[BlobRow]) -> References:
        """Keep rows, and return a reference `[n, 3]` to each."""
        references = np.empty((len(rows), REFERENCE_WIDTH), np.uint64)
        references[:, 0] = [self._keep(row) for row in rows]
        references[:, 1] = [len(row.content) for row in rows]
        references[:, 2] = [row.digest for row in rows]
        self._file.flush()
        return references

    def read(self, references: References) -> Any:
        """Return the rows of references `[n, 3]` as a binary Arrow array.

        Raises:
            OSError: The temporary file cannot be read.
            UserError: A file of the source is not as it was.
        """
        offsets = np.concatenate([[0], np.cumsum(references[:, 1])]).astype(np.int32)
        target = pa.allocate_buffer(int(offsets[-1]))
        view = memoryview(target)
        places = zip(references[:, 0].tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        for place, start, stop in places:
            if place & _FILE:
                self._read_source(place ^ _FILE, view[start:stop])
            elif os.preadv(self._file.fileno(), [view[start:stop]], place) != stop - start:
                raise OSError(errno.EIO, "a temporary file is shorter than what was written to it")
        buffers = [None, pa.py_buffer(offsets), target]
        return pa.Array.from_buffers(pa.binary(), len(references), buffers)

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()

    def _keep(self, row: BlobRow) -> int:
        """Return where a row is: its offset, or the number of its file."""
        if row.file is not None and row.file.disk == self._disk:
            self._paths.append(row.file.path)
            self._modified.append(row.file.modified)
            return _FILE | len(self._paths) - 1
        self._file.write(row.content)
        self._size += len(row.content)
        return self._size - len(row.content)

    def _read_source(self, number: int, target: memoryview) -> None:
        path = self._paths[number]
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                same = (status.st_size, status.st_mtime_ns) == (len(target), self._modified[number])
                same = same and file.readinto(target) == len(target)
        except OSError:
            same = False
        if not same:
            raise UserError(
                f"`{self._show(path)}` has changed since sharding began",
                "start again when nothing writes to it",
            )

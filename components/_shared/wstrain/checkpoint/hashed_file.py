"""A file that computes its SHA-256 while it is written, and PyTorch's own checksum switched off for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any


class HashedFile:
    """Hashes what is written to a file, and keeps the error that PyTorch's writers would hide."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()
        self.bytes = 0
        self.failure: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write all of ``data``."""
        try:
            self._file.write(data)
        except OSError as error:
            self.failure = error
            raise
        self._hash.update(data)
        self.bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how much was written."""
        return self.bytes

    def flush(self) -> None:
        """Hand buffered data to the operating system."""
        self._file.flush()

    def fileno(self) -> int:
        """Flush, and return the descriptor for ``fsync``."""
        self._file.flush()
        return self._file.fileno()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def size_and_hash(self) -> dict[str, Any]:
        """Return size and SHA-256 of what was written, as the card of a checkpoint lists them."""
        return {"bytes": self.bytes, "sha256": self._hash.hexdigest()}


def flush_to_disk(file: IO[Any]) -> None:
    """Wait until a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def skip_crc32() -> Iterator[None]:
    """Let ``torch.save`` leave out CRC-32, a third of its time, which ``torch.load`` does not read."""
    from torch import serialization  # TensorFlow's checkpoints need no torch

    before = serialization.get_crc32_options()
    serialization.set_crc32_options(False)
    try:
        yield
    finally:
        serialization.set_crc32_options(before)

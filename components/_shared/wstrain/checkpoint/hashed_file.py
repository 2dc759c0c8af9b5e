"""Files that are hashed as they are written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from torch import serialization


class HashedFile:
    """A file that hashes what passes; it keeps the error that PyTorch's writers would swallow."""

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
        """Hand what is buffered to the system."""
        self._file.flush()

    def fileno(self) -> int:
        """Return the descriptor, for ``fsync``; nothing stays behind in a buffer."""
        self._file.flush()
        return self._file.fileno()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def size_and_hash(self) -> dict[str, Any]:
        """Return size and hash of what was written."""
        return {"bytes": self.bytes, "sha256": self._hash.hexdigest()}


def flush_to_disk(file: IO[Any]) -> None:
    """Put a file onto the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def skip_crc32() -> Iterator[None]:
    """Save without CRC-32; ``torch.load`` does not ask for it."""
    before = serialization.get_crc32_options()
    serialization.set_crc32_options(False)
    try:
        yield
    finally:
        serialization.set_crc32_options(before)

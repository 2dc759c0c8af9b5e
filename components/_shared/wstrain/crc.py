"""PyTorch's checksum of what it saves: a third of the work, for files that have a SHA-256 on their card."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import serialization


@contextmanager
def left_out() -> Iterator[None]:
    """Save without CRC-32; ``torch.load`` does not ask for it."""
    before = serialization.get_crc32_options()
    serialization.set_crc32_options(False)
    try:
        yield
    finally:
        serialization.set_crc32_options(before)

"""Mean and deviation of training rows, the same to the last bit however the rows are divided into pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
BLOCK = 1 << 12  # rows that are summed at a time


class Moments:
    """Sums of `width` numbers a row, in blocks of one size however the rows arrive; NaN is left out."""

    def __init__(self, width: int) -> None:
        self._block = np.empty((BLOCK, width))
        self._filled = 0
        self._origin: F64 | None = None  # sums of what is far from 0 would lose the difference
        self._count = np.zeros(width, np.int64)
        self._sum, self._squares = np.zeros(width), np.zeros(width)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Take in the rows `[n, width]`."""
        start = 0
        while start < len(values):
            count = min(BLOCK - self._filled, len(values) - start)
            self._block[self._filled : self._filled + count] = values[start : start + count]
            self._filled += count
            start += count
            if self._filled == BLOCK:
                self._flush()

    def finish(self) -> tuple[F64, F64]:
        """Return the mean `[width]` and the standard deviation `[width]`, 0 where there is no value."""
        self._flush()
        rows = np.maximum(self._count, 1)
        origin = self._origin if self._origin is not None else np.zeros(len(self._sum))
        mean = self._sum / rows
        variance = np.maximum(self._squares / rows - mean**2, 0.0)
        return np.where(self._count > 0, origin + mean, 0.0), np.sqrt(variance)

    def _flush(self) -> None:
        if not self._filled:
            return
        block = self._block[: self._filled]
        known = np.isfinite(block)
        if self._origin is None:
            totals, counts = np.where(known, block, 0.0).sum(axis=0), known.sum(axis=0)
            self._origin = totals / np.maximum(counts, 1)
        shifted = np.where(known, block - self._origin, 0.0)
        self._count += known.sum(axis=0)
        self._sum += shifted.sum(axis=0)
        self._squares += (shifted**2).sum(axis=0)
        self._filled = 0

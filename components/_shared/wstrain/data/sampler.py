"""The global-batch sampler: which samples make up global batch ``k`` of epoch ``e``.

They depend only on ``(seed, e, k, G)`` and the number of rows, never on the world size. Ranks and
accumulation steps slice that one list: 64 GPUs, a laptop with two processes and a resumed job all see the
same batches.

The order of an epoch is a keyed permutation that is *computed*, not stored: a Feistel network over the
smallest power of two that holds all rows, walked on until it lands inside (Black and Rogaway 2002,
"Ciphers with Arbitrary Finite Domains"). Any batch of any epoch takes the same few microseconds, resuming
needs no replay, and a billion rows take no memory. It uses 64-bit integer arithmetic only, so the order does
not depend on the version of a library.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MAX_CACHED_ROWS = (
    1 << 20
)  # an epoch of so many rows is computed at once, in 8 MiB; small calls would cost more
_ROUNDS = 6  # four make a strong permutation in theory (Luby and Rackoff 1988); two more cost microseconds
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class GlobalBatchSampler:
    """The batches of one training.

    Args:
        rows: training rows.
        global_batch: samples per optimizer step, ``G``.
        seed: determines the order; any integer.
    """

    rows: int
    global_batch: int
    seed: int

    def global_batch_indices(self, epoch: int, batch: int) -> Indices:
        """Return the ``G`` row numbers of global batch ``batch`` (from 0) of epoch ``epoch`` (from 0)."""
        start = batch * self.global_batch
        if start + self.global_batch > self.rows:
            raise IndexError(f"epoch has {self.rows // self.global_batch} global batches, asked for {batch}")
        key = _mix(_mix(self.seed & _MASK) ^ (epoch & _MASK))
        if self.rows <= MAX_CACHED_ROWS:
            return _whole_epoch(self.rows, key)[start : start + self.global_batch]
        return permute(np.arange(start, start + self.global_batch, dtype=np.uint64), self.rows, key)

    def micro_batches(
        self, epoch: int, batch: int, *, rank: int, world_size: int, accumulation: int
    ) -> list[Indices]:
        """Return this rank's part of a global batch, one array per accumulation step.

        ``G`` must be divisible by ``world_size × accumulation``. Rank ``r`` takes the ``r``-th contiguous
        run, so micro-batches of one size are the same arrays at any world size.
        """
        parts = world_size * accumulation
        if self.global_batch % parts:
            raise ValueError(f"global batch {self.global_batch} does not divide into {parts} micro-batches")
        whole = self.global_batch_indices(epoch, batch).reshape(parts, -1)
        return list(whole[rank * accumulation : (rank + 1) * accumulation])

    def some_rows(self, limit: int) -> Indices:
        """Return up to ``limit`` rows, drawn without repeats and the same whatever the global batch is."""
        return permute(np.arange(min(limit, self.rows), dtype=np.uint64), self.rows, _mix(~self.seed & _MASK))


def seed_micro_batch(seed: int, step: int, position: int) -> int:
    """Return the seed of the random numbers of one micro-batch, from 0 to 2⁶³ − 1.

    It depends on the place of the micro-batch in the training, not on what a rank drew before: a resumed run
    draws the same numbers, and so does another world size with micro-batches of the same size.

    Args:
        seed: of the training.
        step: optimizer steps before it.
        position: of the micro-batch in its global batch.
    """
    return ((seed * 1_000_003 + step) * 1_000_003 + position) & 0x7FFFFFFFFFFFFFFF


def permute(positions: Words, size: int, key: int) -> Indices:
    """Map positions ``0 … size-1`` one-to-one onto ``0 … size-1`` by a keyed permutation."""
    bits = max(2, (size - 1).bit_length())
    keys = [np.uint64(_mix(key ^ (number * _GOLDEN & _MASK))) for number in range(1, _ROUNDS + 1)]
    values = _feistel(positions, bits, keys)
    # The domain is less than twice the size, so this ends quickly; each walk stays within its own cycle.
    outside = np.flatnonzero(values >= size)
    while outside.size:
        values[outside] = _feistel(values[outside], bits, keys)
        outside = outside[values[outside] >= size]
    return values.astype(np.int64)


@lru_cache(maxsize=2)
def _whole_epoch(rows: int, key: int) -> Indices:
    order = permute(np.arange(rows, dtype=np.uint64), rows, key)
    order.flags.writeable = False  # it is handed out in slices
    return order


def _feistel(values: Words, bits: int, keys: list[np.uint64]) -> Words:
    # Each half in turn is changed by a hash of the other, which can be undone: so no two values ever meet.
    low, high = bits // 2, bits - bits // 2
    left, right = values >> np.uint64(low), values & np.uint64((1 << low) - 1)
    for even, odd in zip(keys[::2], keys[1::2], strict=True):
        left = left ^ _hash(right + even, high)
        right = right ^ _hash(left + odd, low)
    result: Words = (left << np.uint64(low)) | right
    return result


def _hash(values: Words, bits: int) -> Words:
    # Multiply, fold, multiply: the top bits of a product depend on all bits of its factors.
    values = values * np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(32)
    values *= np.uint64(0x94D049BB133111EB)
    result: Words = values >> np.uint64(64 - bits)
    return result


def _mix(value: int) -> int:
    # The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)

"""Which rows are held out: decided by the hash of each row, so copies of a row never straddle the split.

The hash of a row's bytes is spread over 64 bits. In each class the rows with the smallest hashes are held
out, as many as :func:`wssources.planned_rows.validation_rows` asks. Where copies of one row sit on that
boundary they all go to the nearer side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wssources.planned_rows import validation_rows

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Chunks = Callable[[], Iterable[tuple[U64, npt.NDArray[Any]]]]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1 << 20  # bytes hashed at a time: stays in the processor's cache


def mix_bits(values: U64) -> U64:
    """Scramble 64-bit integers one to one (the finaliser of SplitMix64; Steele, Lea and Flood 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: U64 = values ^ (values >> np.uint64(31))
    return mixed


def shuffle_keys(first: int, count: int, seed: int) -> U64:
    """Sort keys that put rows `first … first + count − 1` of the input in random order; no two are equal."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    return mix_bits(numbers * _GOLDEN + _salt(seed, 1))


def hash_rows(rows: npt.NDArray[Any], seed: int) -> U64:
    """Hash each row of a C-contiguous `[n, width]` array to 64 bits; equal bytes give equal hashes.

    Multilinear hashing of 32-bit words with 64-bit random weights, which is almost universal (Lemire and
    Kaser 2014), then one round of mixing with the seed.
    """
    size = rows.shape[1] * rows.itemsize
    words = -(-size // 4)
    weights = mix_bits(np.arange(1, words + 1, dtype=np.uint64) * _GOLDEN)
    hashes = np.empty(len(rows), np.uint64)
    step = max(1, _BLOCK // max(size, 1))
    for start in range(0, len(rows), step):
        block = rows[start : start + step].view(np.uint8).reshape(-1, size)
        if size % 4:
            block = np.pad(block, ((0, 0), (0, -size % 4)))
        wide = np.ascontiguousarray(block).view(np.uint32).astype(np.uint64)
        hashes[start : start + step] = wide @ weights
    return mix_bits(hashes ^ _salt(seed, 2))


def newest_keys(times: npt.NDArray[np.float64]) -> U64:
    """Return :func:`wssources.groups.newest_key` of each time `[n]`."""
    bits = (times + 0.0).view(np.uint64)
    sign = np.uint64(1 << 63)
    keys: U64 = np.where(bits & sign, bits, ~(bits | sign))
    return keys


def times_of_keys(keys: U64) -> npt.NDArray[np.float64]:
    """Return the times `[n]` of :func:`newest_keys`."""
    sign = np.uint64(1 << 63)
    return np.where(keys & sign, keys, ~keys & ~sign).view(np.float64)


def find_thresholds(
    chunks: Chunks, rows_per_class: Sequence[int], fraction: float, *, quotas: I64 | None = None
) -> U64:
    """Return the hash below which a row of each class is held out.

    Reads the index of all rows twice and keeps only histograms and the few hashes near each boundary, so
    memory does not grow with the data.

    Args:
        chunks: starts a new pass over `(hashes [n], classes [n])` pieces of the whole index.
        rows_per_class: rows of each class `[classes]`.
        fraction: share to hold out, `0 <= fraction < 1`.
        quotas: rows to hold out of each class `[classes]`, instead of the fraction.

    Returns:
        Thresholds `[classes]`: a row of class `c` is held out when its hash is below `thresholds[c]`.
    """
    classes = len(rows_per_class)
    if quotas is None:
        quotas = np.array([validation_rows([rows], fraction) for rows in rows_per_class], np.int64)
    if not quotas.any():
        return np.zeros(classes, np.uint64)
    bits = max(1, min(16, 20 - max(classes - 1, 1).bit_length()))
    counts = _histogram(chunks, classes, bits)
    ends = counts.cumsum(axis=1)
    # The boundary of a class lies in the first bucket whose end is beyond its quota.
    bucket = (ends <= quotas[:, None]).sum(axis=1).clip(max=(1 << bits) - 1)
    before = ends[np.arange(classes), bucket] - counts[np.arange(classes), bucket]
    labels, hashes, copies = _members(chunks, bucket, bits)
    result = np.zeros(classes, np.uint64)
    begins, stops = np.searchsorted(labels, [np.arange(classes), np.arange(1, classes + 1)])
    for index in range(classes):
        group = slice(begins[index], stops[index])
        if quotas[index] and begins[index] < stops[index]:
            limit = int(rows_per_class[index]) - int(before[index])
            result[index] = _cut(hashes[group], copies[group], int(quotas[index] - before[index]), limit)
            if result[index] == 0:
                result[index] = np.uint64((int(bucket[index]) + 1) << (64 - bits))
    return result


def _cut(hashes: U64, copies: I64, wanted: int, rows: int) -> np.uint64:
    """The first hash left out when about `wanted` of `rows` rows are taken; 0 means that all are taken."""
    taken = np.concatenate([[0], copies.cumsum()])
    allowed = taken[taken < rows] if taken[-1] >= rows else taken
    best = int(np.abs(allowed - wanted).argmin())  # the first of equals: rather one row more to train on
    first: np.uint64 = hashes[best] if best < len(hashes) else np.uint64(0)
    return first


def _histogram(chunks: Chunks, classes: int, bits: int) -> I64:
    counts = np.zeros(classes << bits, np.int64)
    for hashes, labels in chunks():
        cells = (labels.astype(np.int64) << bits) | _top(hashes, bits)
        counts += np.bincount(cells, minlength=len(counts))
    return counts.reshape(classes, 1 << bits)


def _members(chunks: Chunks, bucket: I64, bits: int) -> tuple[I64, U64, I64]:
    """The rows in each class's boundary bucket: sorted distinct `(class, hash)` pairs and their copies."""
    labels, hashes = np.empty(0, np.int64), np.empty(0, np.uint64)
    copies = np.empty(0, np.int64)
    for piece_hashes, piece_labels in chunks():
        piece_classes = piece_labels.astype(np.int64)
        inside = _top(piece_hashes, bits) == bucket[piece_classes]
        labels = np.concatenate([labels, piece_classes[inside]])
        hashes = np.concatenate([hashes, piece_hashes[inside]])
        copies = np.concatenate([copies, np.ones(int(inside.sum()), np.int64)])
        order = np.lexsort((hashes, labels))
        labels, hashes, copies = labels[order], hashes[order], copies[order]
        if len(labels):
            new = np.concatenate([[True], (labels[1:] != labels[:-1]) | (hashes[1:] != hashes[:-1])])
            begins = np.flatnonzero(new)
            labels, hashes, copies = labels[begins], hashes[begins], np.add.reduceat(copies, begins)
    return labels, hashes, copies


def _top(hashes: U64, bits: int) -> I64:
    top: I64 = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    return top


def _salt(seed: int, purpose: int) -> np.uint64:
    value = np.array([(seed * 4 + purpose) % (1 << 64)], np.uint64)
    salt: np.uint64 = mix_bits(value * _GOLDEN)[0]
    return salt

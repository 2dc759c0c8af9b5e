"""Log-probabilities of classes, from probabilities or logits; every row by itself, whatever is beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TINY = float(np.finfo(np.float32).tiny)  # keeps the logarithm of a probability of 0 finite
_VALUES = 1 << 20  # doubles at a time: outputs of language models are large


def blocks(outputs: Array) -> Iterator[slice]:
    """Yield slices of the rows of `[n, k]` that have at most about a million values."""
    size = max(1, _VALUES // max(outputs.shape[1], 1))
    for start in range(0, len(outputs), size):
        yield slice(start, start + size)


def log_softmax(logits: Array) -> Array:
    """Return the log-probabilities of logits `[n, k]` as doubles."""
    values = np.ascontiguousarray(logits, np.float64)
    with np.errstate(invalid="ignore"):  # infinite logits give NaN, which the caller gets
        shifted = values - values.max(axis=1, keepdims=True)
        result: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def log_probabilities(probabilities: Array) -> Array:
    """Return the logarithms of probabilities as doubles; 0 counts as the smallest normal float32."""
    result: Array = np.log(np.maximum(np.ascontiguousarray(probabilities, np.float64), TINY))
    return result


def are_distributions(outputs: Array) -> bool:
    """Whether no value of `[n, k]` is negative and every row sums to 1."""
    sums = np.ascontiguousarray(outputs, np.float64).sum(axis=1)
    return bool((outputs >= 0).all() and (np.abs(sums - 1) < 1e-3).all())


def binary_losses(outputs: Array, targets: Array, *, logits: bool) -> Array:
    """Return the cross-entropy in nats of each label, `[n, k]`.

    Of logits as PyTorch's `binary_cross_entropy_with_logits`: max(x, 0) - x·y + log(1 + exp(-|x|)).
    """
    values = np.ascontiguousarray(outputs, np.float64)
    if logits:
        with np.errstate(invalid="ignore"):
            losses: Array = np.maximum(values, 0) - values * targets + np.log1p(np.exp(-np.abs(values)))
        return losses
    return -np.log(np.maximum(np.where(targets > 0, values, 1.0 - values), TINY))

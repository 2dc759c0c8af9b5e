"""The area under the ROC curve, from all scores or, of very many, from counts of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmetrics.exact_sum import divide

Array = npt.NDArray[Any]

MAX_SCORES = 1 << 24  # kept one by one; 64 MiB as float32
_STEPS = 1 << 22  # counters of all columns together, beyond that
MAX_COLUMNS = 100  # classes up to which it is measured


def unchanged(scores: Array) -> Array:
    """Return probabilities as they are."""
    return scores


def exponential(logs: Array) -> Array:
    """Return the probabilities of log-probabilities."""
    result: Array = np.exp(logs)
    return result


def sigmoid(logits: Array) -> Array:
    """Return `1 / (1 + exp(-x))` without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)


class RankScores:
    """Scores `[n, columns]` and whether each is of a positive row.

    The area is the share of pairs of a positive and a negative row in which the positive one has the higher
    score, a tie being half a pair: the Mann-Whitney statistic (J. A. Hanley and B. J. McNeil, "The meaning
    and use of the area under a receiver operating characteristic (ROC) curve", Radiology 143, 1982).

    Up to `MAX_SCORES` scores are kept as they are, so the area is exact. Beyond, scores are rounded down to
    one of `2**22 / columns` equal steps of probability, and pairs in one step are ties. Whether they are
    depends only on the number of all scores, not on how they are cut.
    """

    def __init__(self, columns: int, to_probability: Callable[[Array], Array] = unchanged) -> None:
        self._columns = columns
        self._to_probability = to_probability
        self._scores: list[Array] = []
        self._positive: list[Array] = []
        self._kept = 0
        self._counts: Array | None = None  # [2, columns, steps]: negative and positive rows
        self._undefined = False  # a score is not finite

    def add(self, scores: Array, positive: Array) -> None:
        """Add scores `[n, columns]`, and whether each row is positive, 0 or 1, `[n, columns]`."""
        if not np.isfinite(scores).all():
            self._undefined = True
            return
        dtype = np.float64 if scores.dtype == np.float64 else np.float32
        self._scores.append(np.array(scores, dtype))
        self._positive.append(np.array(positive, bool))
        self._kept += scores.size
        self._bound()

    def merge(self, other: RankScores) -> None:
        """Add the scores of another."""
        self._undefined |= other._undefined
        self._scores += other._scores
        self._positive += other._positive
        self._kept += other._kept
        if other._counts is not None:
            self._count()
            self._counts += other._counts
        self._bound()

    def areas(self) -> list[float]:
        """Return the area of each column, without columns whose rows are all positive or all negative."""
        if self._undefined:
            return []
        columns = (self._pairs(column) for column in range(self._columns))
        return [divide(twice, 2 * pairs) for twice, pairs in columns if pairs]

    def curve(self, column: int = 0, points: int = 500) -> tuple[Array, Array]:
        """Return at most about `points` false and true positive rates of one column's ROC curve."""
        negative, positive = self._cumulate(column)
        chosen = np.unique(np.linspace(0, len(negative) - 1, min(points, len(negative))).astype(int))
        rates = (1 - counts / max(counts[-1], 1) for counts in (negative, positive))
        false, true = (np.append(1.0, counts[chosen]) for counts in rates)
        return false, true

    def _pairs(self, column: int) -> tuple[int, int]:
        """Return twice the pairs in the right order, a tie being one, and the number of pairs."""
        negative, positive = self._cumulate(column)
        if not len(negative):
            return 0, 0
        before = np.append(0, negative[:-1])  # negative rows of lower scores
        here = np.diff(positive, prepend=0)
        return int((here * (before + negative)).sum()), int(negative[-1]) * int(positive[-1])

    def _cumulate(self, column: int) -> tuple[Array, Array]:
        """Return how many negative and positive rows have at most each score, in the order of scores."""
        if self._counts is not None:
            negative, positive = self._counts[:, column]
            return np.cumsum(negative), np.cumsum(positive)
        if not self._scores:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        scores = np.concatenate([part[:, column] for part in self._scores])
        is_positive = np.concatenate([part[:, column] for part in self._positive])
        order = np.argsort(scores, kind="stable")
        scores, is_positive = scores[order], is_positive[order]
        last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # of rows with the same score
        positives = np.cumsum(is_positive, dtype=np.int64)[last]
        return last + 1 - positives, positives

    def _bound(self) -> None:
        if self._counts is not None or self._kept > MAX_SCORES:
            self._count()

    def _count(self) -> None:
        """Turn the scores that are kept into counts."""
        steps = _STEPS // self._columns
        if self._counts is None:
            self._counts = np.zeros((2, self._columns, steps), np.int64)
        for scores, positive in zip(self._scores, self._positive, strict=True):
            shares = self._to_probability(scores.astype(np.float64))
            places = np.clip((shares * steps).astype(np.int64), 0, steps - 1)
            for column in range(self._columns):
                cells = positive[:, column] * steps + places[:, column]
                self._counts[:, column] += np.bincount(cells, minlength=2 * steps).reshape(2, steps)
        self._scores, self._positive, self._kept = [], [], 0

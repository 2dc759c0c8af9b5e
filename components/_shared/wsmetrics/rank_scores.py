"""The ROC curve's area, average precision and best threshold, from all scores or counts of very many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmetrics.exact_sum import ExactSum, divide

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
    and use of the area under a receiver operating characteristic (ROC) curve", Radiology 143, 1982). The
    average precision is the mean over positive rows of the precision among the rows that score at least as
    high: Σ (Rₙ - Rₙ₋₁)·Pₙ, as scikit-learn's `average_precision_score`.

    Up to `MAX_SCORES` scores are kept as they are, so both are exact. Beyond, scores are rounded down to
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

    def means(self) -> dict[str, float]:
        """Return `auroc` and `average_precision`, each the mean over columns.

        Columns whose rows are all positive or all negative do not count; without any other nothing is
        returned.
        """
        columns = [] if self._undefined else [self._cumulate(column) for column in range(self._columns)]
        ranked = [(negative, positive) for _, negative, positive in columns if len(negative)]
        ranked = [(negative, positive) for negative, positive in ranked if negative[-1] and positive[-1]]
        if not ranked:
            return {}
        return {
            "auroc": float(np.mean([_area(*counts) for counts in ranked])),
            "average_precision": float(np.mean([_average_precision(*counts) for counts in ranked])),
        }

    def best_threshold(self, column: int = 0) -> float | None:
        """Return the probability from which on a positive answer has the largest F1.

        Candidates are 0.5 and the middles between two neighbouring probabilities, so that the rounding of one
        changes no answer. Of equally good ones the nearest to 0.5 is taken, and of two as near the lower.
        Without positive or without negative rows there is none.
        """
        scores, negative, positive = self._cumulate(column)
        if self._undefined or not len(negative) or not negative[-1] or not positive[-1]:
            return None
        scores = scores.astype(np.float32).astype(np.float64)  # as models answer
        lower = np.append(0.0, scores[:-1])
        apart = np.flatnonzero(scores > lower)
        candidates = np.append((scores + lower)[apart] / 2, 0.5)
        places = np.append(apart, np.searchsorted(scores, 0.5))  # of the lowest positive answer
        right = positive[-1] - np.append(0, positive)[places]
        answered = right + negative[-1] - np.append(0, negative)[places]
        f1 = 2 * right / (answered + positive[-1])
        best = candidates[f1 == f1.max()]
        return float(best[np.abs(best - 0.5).argmin()])

    def curve(self, column: int = 0, points: int = 500) -> tuple[Array, Array]:
        """Return at most about `points` false and true positive rates of one column's ROC curve."""
        _, negative, positive = self._cumulate(column)
        chosen = np.unique(np.linspace(0, len(negative) - 1, min(points, len(negative))).astype(int))
        rates = (1 - counts / max(counts[-1], 1) for counts in (negative, positive))
        false, true = (np.append(1.0, counts[chosen]) for counts in rates)
        return false, true

    def _cumulate(self, column: int) -> tuple[Array, Array, Array]:
        """Return the probabilities in order, and how many negative and positive rows have at most each."""
        if self._counts is not None:
            negative, positive = self._counts[:, column]
            steps = np.flatnonzero(negative + positive)
            middles = (steps + 0.5) / len(negative)
            return middles, np.cumsum(negative)[steps], np.cumsum(positive)[steps]
        if not self._kept:
            return np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
        scores = np.concatenate([part[:, column] for part in self._scores])
        is_positive = np.concatenate([part[:, column] for part in self._positive])
        order = np.argsort(scores, kind="stable")
        scores, is_positive = scores[order], is_positive[order]
        last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # of rows with the same score
        positives = np.cumsum(is_positive, dtype=np.int64)[last]
        return self._to_probability(scores[last].astype(np.float64)), last + 1 - positives, positives

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


def _area(negative: Array, positive: Array) -> float:
    """Return the area from the negative and positive rows up to each score."""
    before = np.append(0, negative[:-1])  # negative rows of lower scores
    here = np.diff(positive, prepend=0)
    return divide(int((here * (before + negative)).sum()), 2 * int(negative[-1]) * int(positive[-1]))


def _average_precision(negative: Array, positive: Array) -> float:
    """Return the average precision from the negative and positive rows up to each score."""
    here = np.diff(positive, prepend=0)
    right = positive[-1] - positive + here  # positive rows of at least this score
    wrong = negative[-1] - np.append(0, negative[:-1])
    total = ExactSum()
    total.add(here * (right / (right + wrong)))
    return total.divided(int(positive[-1]))

"""The area under the ROC curve and the average precision of weighted rows, sorted once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wspaired.statistics import RankStatistic

Array = npt.NDArray[Any]


class RankedScores:
    """The scores that two models give the same rows, by unit.

    Args:
        statistic: gives the scores.
        units: number of units.
        every: of how many units one is kept.
    """

    def __init__(self, statistic: RankStatistic, units: int, every: int) -> None:
        self._statistic, self._units, self._every = statistic, units, every
        self._parts: list[tuple[Array, Array, Array, Array]] = []
        self._sorted: list[list[_Column]] = []

    @property
    def size(self) -> int:
        """The scores that are kept of both models."""
        return 2 * sum(part[0].size for part in self._parts)

    def add(self, champion: tuple[Array, Array], challenger: tuple[Array, Array], units: Array) -> None:
        """Add scores and whether rows are positive, both `[n, columns]`, and the unit of each row."""
        kept = units % self._every == 0
        old, new = champion[0][kept], challenger[0][kept]
        self._parts.append((old, new, champion[1][kept], units[kept].astype(np.int32)))
        self._sorted = []

    def merge(self, other: RankedScores) -> None:
        """Add the scores of another."""
        self._parts += other._parts
        self._sorted = []

    def list_units(self, order: Array) -> Array:
        """Return the units whose scores are kept, in the given order of all units."""
        kept: Array = order[order % self._every == 0]
        return kept

    def measure(self) -> tuple[float, float]:
        """Return the metric of both models over the rows that are kept."""
        old, new = (self._mean(model, np.ones(self._units)) for model in self._sort())
        return old, new

    def differences(self, weights: Array) -> Array:
        """Return the challenger's metric less the champion's for weights `[replicates, units]`."""
        champion, challenger = self._sort()
        return np.array([self._mean(challenger, row) - self._mean(champion, row) for row in weights])

    def _mean(self, columns: list[_Column], weights: Array) -> float:
        """Return the mean over columns that have positive and negative rows."""
        measure = _area if self._statistic.name == "auroc" else _average_precision
        values = [measure(*column.cumulate(weights)) for column in columns]
        values = [value for value in values if np.isfinite(value)]
        return float(np.mean(values)) if values else float("nan")

    def _sort(self) -> list[list[_Column]]:
        if not self._sorted:
            old, new, positive, units = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
            self._sorted = [
                [_Column(scores[:, place], positive[:, place], units) for place in range(scores.shape[1])]
                for scores in (old, new)
            ]
        return self._sorted


class _Column:
    """The rows of one column by falling score."""

    def __init__(self, scores: Array, positive: Array, units: Array) -> None:
        order = np.argsort(-scores, kind="stable")
        scores = scores[order]
        self._ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # of rows with one score
        self._units, self._positive = units[order], positive[order]

    def cumulate(self, weights: Array) -> tuple[Array, Array]:
        """Return the weight of the negative and of the positive rows from each score on."""
        rows = weights[self._units]
        positive = np.cumsum(rows * self._positive)[self._ends]
        return np.cumsum(rows)[self._ends] - positive, positive


def _area(negative: Array, positive: Array) -> float:
    above = np.diff(positive, prepend=0.0) / 2 + np.append(0.0, positive[:-1])  # a tie is half a pair
    with np.errstate(invalid="ignore", divide="ignore"):
        return float((np.diff(negative, prepend=0.0) * above).sum() / (negative[-1] * positive[-1]))


def _average_precision(negative: Array, positive: Array) -> float:
    if not negative[-1] or not positive[-1]:
        return float("nan")
    rows = negative + positive
    precision = positive / np.where(rows > 0, rows, 1.0)
    return float((np.diff(positive, prepend=0.0) * precision).sum() / positive[-1])

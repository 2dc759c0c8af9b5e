"""Sums of two models over each unit of the same rows, from which differences follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wspaired.difference import Difference, make_difference
from wspaired.ranks import RankedScores
from wspaired.statistics import RankStatistic, Rows, Statistic

Array = npt.NDArray[Any]
REPLICATES = 2_000  # standard errors to 1.6 %: 1 / √(2 · replicates)
_FEWEST_REPLICATES = 200  # to 5 %
_AT_ONCE = 50
_WORK = 4e8  # scores that are weighed
_SCORES = 1 << 20  # kept of one model and metric


class Pairs:
    """Two models on the same rows; the first is the champion, the second the challenger.

    Memory does not grow with the rows: a unit has a few sums for each statistic. Only for the area under the
    ROC curve and the average precision scores are kept, about a million; of more, whole units are left out,
    and the standard error of those kept is multiplied by the root of their share.

    Args:
        statistics: by the name of the metric.
        units: number of units.
        rows: number of rows, to know how many scores there will be.
        are_rows: whether each row is a unit, or units are joined of single rows.
    """

    def __init__(
        self, statistics: Sequence[Statistic | RankStatistic], units: int, rows: int, *, are_rows: bool
    ) -> None:
        self._statistics = {statistic.name: statistic for statistic in statistics}
        self._units, self._rows, self._are_rows = units, 0, are_rows
        self._sums = {s.name: np.zeros((2, units, _width(s))) for s in statistics}
        self._discordant = dict.fromkeys(self._statistics, 0)
        self._won = {s.name: np.zeros(2, np.int64) for s in statistics}
        self._ranks = {
            s.name: RankedScores(s, units, _keep_every(rows * s.width, units))
            for s in statistics
            if isinstance(s, RankStatistic)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the metrics."""
        return tuple(self._statistics)

    def add(self, champion: Rows, challenger: Rows, units: Array) -> None:
        """Add the answers of both models for the same rows, and the unit of each row `[n]`."""
        self._rows += len(units)
        for name, statistic in self._statistics.items():
            if isinstance(statistic, RankStatistic):
                both = [statistic.measure(rows) for rows in (champion, challenger)]
                self._ranks[name].add(both[0], both[1], units)
                values = [np.concatenate([scores, positive], axis=1) for scores, positive in both]
            else:
                values = [statistic.measure(rows) for rows in (champion, challenger)]
            differ = (values[0] != values[1]).any(axis=1)
            self._discordant[name] += int(differ.sum())
            self._won[name] += [int((part[differ, 0] > 0).sum()) for part in values]
            for sums, part in zip(self._sums[name], values, strict=True):
                np.add.at(sums, units, part)

    def merge(self, other: Pairs) -> None:
        """Add the rows of another object with the same statistics and units."""
        self._rows += other._rows
        for name in self._statistics:
            self._sums[name] += other._sums[name]
            self._discordant[name] += other._discordant[name]
            self._won[name] += other._won[name]
        for name, ranks in self._ranks.items():
            ranks.merge(other._ranks[name])

    def measure(self, name: str) -> tuple[float, float]:
        """Return the metric of the champion and of the challenger."""
        statistic, (champion, challenger) = self._statistics[name], self._sums[name]
        if isinstance(statistic, RankStatistic):
            return self._ranks[name].measure()
        old, new = (statistic.compute(sums.sum(axis=0)) for sums in (champion, challenger))
        return float(old), float(new)

    def compare(self, name: str, values: tuple[float, float] | None = None, seed: int = 0) -> Difference:
        """Return the improvement in a metric.

        Means have the standard error of a ratio of sums over units: the root of U / (U - 1) · Σ(dᵤ - d̄·nᵤ)² /
        (Σnᵤ)², with dᵤ the difference of the sums of unit u and nᵤ its rows (W. G. Cochran, "Sampling
        Techniques", 1977, section 2.11); where units are rows, it is that of the paired differences. Other
        metrics have the standard deviation over a bootstrap of the units (B. Efron and R. J. Tibshirani, "An
        Introduction to the Bootstrap", 1993, chapter 6).

        Args:
            name: of the metric.
            values: of the champion and the challenger, if they are known more exactly.
            seed: of the bootstrap; the same seed gives the same bits.
        """
        statistic = self._statistics[name]
        old, new = values or self.measure(name)
        is_mean = isinstance(statistic, Statistic) and statistic.is_mean
        error = self._mean_error(name) if is_mean else self._bootstrap_error(name, seed)
        is_right = isinstance(statistic, Statistic) and statistic.is_right and self._are_rows
        won = (int(self._won[name][0]), int(self._won[name][1])) if is_right else None
        return make_difference(
            new - old if statistic.goal == "maximize" else old - new,
            error,
            rows=self._rows,
            units=self._rows if self._are_rows else self._units,
            discordant=self._discordant[name],
            won=won,
        )

    def _mean_error(self, name: str) -> float:
        champion, challenger = self._ordered(name)[0]
        difference, rows = challenger[:, 0] - champion[:, 0], champion[:, 1]
        rest = difference - difference.sum() / rows.sum() * rows
        units = int((rows > 0).sum())
        return float(np.sqrt(units / max(units - 1, 1) * (rest**2).sum()) / rows.sum())

    def _bootstrap_error(self, name: str, seed: int) -> float:
        sums, order = self._ordered(name)
        if np.array_equal(sums[0], sums[1]) and not self._discordant[name]:
            return 0.0
        ranks, statistic = self._ranks.get(name), self._statistics[name]
        kept = ranks.list_units(order) if ranks else np.arange(self._units)
        count = REPLICATES
        if ranks is not None:
            count = int(min(REPLICATES, max(_FEWEST_REPLICATES, _WORK / max(ranks.size, 1))))
        differences = []
        with np.errstate(invalid="ignore", divide="ignore"):
            for weights in _draw_weights(len(kept), count, seed):
                if isinstance(statistic, RankStatistic):
                    assert ranks is not None
                    full = np.zeros((len(weights), self._units))
                    full[:, kept] = weights
                    differences.append(ranks.differences(full))
                else:
                    old, new = (statistic.compute(weights @ part) for part in sums)
                    differences.append(new - old)
        replicates = np.concatenate(differences)
        replicates = replicates[np.isfinite(replicates)]  # a draw may have no row of a class
        if len(replicates) < 2:
            return 0.0
        return float(replicates.std(ddof=1) * np.sqrt(len(kept) / self._units))

    def _ordered(self, name: str) -> tuple[Array, Array]:
        """Return the sums of both models by unit in an order of their values, and this order.

        So neither the order of the rows, nor which model is which, changes what is drawn.
        """
        sums = self._sums[name]
        keys = sums @ np.random.default_rng(1).random(sums.shape[2])
        first = int(keys[0].sum() > keys[1].sum())
        order = np.lexsort((keys[1 - first], keys[first]))
        return sums[:, order], order


def _width(statistic: Statistic | RankStatistic) -> int:
    return statistic.width * (2 if isinstance(statistic, RankStatistic) else 1)


def count_sums(statistics: Sequence[Statistic | RankStatistic]) -> int:
    """Return how many sums of one model are kept of a unit."""
    return sum(map(_width, statistics))


def _keep_every(scores: int, units: int) -> int:
    """Return of how many units the scores of one are kept."""
    return max(1, min(-(-scores // _SCORES), units // _FEWEST_REPLICATES))


def _draw_weights(units: int, replicates: int, seed: int) -> Iterator[Array]:
    """Yield `[n, units]`: how often each unit is drawn in each of some replicates."""
    random = np.random.default_rng(seed)
    for start in range(0, replicates, _AT_ONCE):
        count = min(_AT_ONCE, replicates - start)
        drawn = random.integers(0, units, (count, units)) + np.arange(count)[:, None] * units
        yield np.bincount(drawn.reshape(-1), minlength=count * units).reshape(count, units).astype(np.float64)

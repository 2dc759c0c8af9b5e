"""Finds a rank that is steadily slower than the others, so that all of them wait for it at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

RATIO = 1.3  # over the median of the others
MIN_DIFFERENCE_SECONDS = 0.001  # a step; less is not worth a warning
MIN_STEPS, MIN_SECONDS = 20, 5.0  # that one observation covers
OBSERVATIONS = 3  # in a row that name the same rank


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank that is steadily slower.

    Attributes:
        rank: its number.
        seconds: that it computes in a step before the exchange.
        others: the median of the other ranks' seconds.
    """

    rank: int
    seconds: float
    others: float

    @property
    def ratio(self) -> float:
        """How many times as long as the others it takes."""
        return self.seconds / self.others


@dataclass
class StragglerDetector:
    """Collects how long ranks compute, and reports a slow one once."""

    least_seconds: float = MIN_SECONDS
    _sums: list[float] = field(default_factory=list)
    _steps: int = 0
    _suspect: int = -1
    _observations: int = 0
    _reported: bool = False

    def note(self, compute_seconds: Sequence[float], steps: int) -> SlowRank | None:
        """Take in the times of some steps.

        Args:
            compute_seconds: mean seconds that each rank computed in a step; 0 where that is not measured.
            steps: number of steps.

        Returns:
            The slow rank, once it is certain; else None.
        """
        if self._reported or len(compute_seconds) < 2 or min(compute_seconds) <= 0:
            return None
        self._sums = self._sums or [0.0] * len(compute_seconds)
        self._sums = [
            total + seconds * steps for total, seconds in zip(self._sums, compute_seconds, strict=True)
        ]
        self._steps += steps
        if self._steps < MIN_STEPS or max(self._sums) < self.least_seconds:
            return None
        means = [seconds / self._steps for seconds in self._sums]
        self._sums, self._steps = [], 0
        return self._judge(means)

    def _judge(self, means: list[float]) -> SlowRank | None:
        slowest = max(range(len(means)), key=means.__getitem__)
        others = median(means[:slowest] + means[slowest + 1 :])
        slow = SlowRank(slowest, means[slowest], others)
        if slow.ratio < RATIO or slow.seconds - others < MIN_DIFFERENCE_SECONDS:
            self._suspect, self._observations = -1, 0
            return None
        self._observations = self._observations + 1 if slowest == self._suspect else 1
        self._suspect = slowest
        self._reported = self._observations >= OBSERVATIONS
        return slow if self._reported else None

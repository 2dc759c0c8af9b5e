"""When to write a checkpoint; the planner uses the same formulas. Imports the standard library only.

Too rarely, and an interruption loses much; too often, and the checkpoints themselves take long. The best
interval follows from the cost of a checkpoint and the mean time between interruptions (Young 1974, "A first
order approximation to the optimum checkpoint interval"; Daly 2006, "A higher order estimate of the optimum
checkpoint interval for restart dumps").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class SavePolicy:
    """When a checkpoint is due, the same on every rank.

    Args:
        intervals: a checkpoint is due when the finished steps are a multiple of one of these.
        between: mean seconds between interruptions, from which the best interval follows; 0 for fixed
            intervals.
    """

    def __init__(self, intervals: Sequence[int] = (), between: float = 0.0) -> None:
        self.intervals, self.between = intervals, between
        self._last = 0

    def is_due(self, done: int, pace: Pace) -> bool:
        """Whether a checkpoint is due after ``done`` steps."""
        if any(done % interval == 0 for interval in self.intervals):
            return True
        return self.between > 0 and pace.step > 0 and done - self._last >= self.steps_between_saves(pace)

    def mark_saved(self, done: int) -> None:
        """Note that the checkpoint of step ``done`` was written or loaded."""
        self._last = done

    def steps_between_saves(self, pace: Pace) -> int:
        """Return the steps between two checkpoints, at least 1."""
        seconds = max(best_interval(pace.cost or ASSUMED_COST_SECONDS, self.between), pace.written)
        return max(1, round(seconds / pace.step))


class Pace(NamedTuple):
    """Measured times, the same on every rank.

    Attributes:
        step: seconds of one optimizer step; 0 if not known yet.
        cost: seconds that training waited for the last checkpoint; 0 if not known yet.
        written: seconds until the last checkpoint was on the disk, before which no other can be written.
    """

    step: float = 0.0
    cost: float = 0.0
    written: float = 0.0


ASSUMED_COST_SECONDS = 1.0  # until a checkpoint has been measured


def best_interval(cost: float, between: float) -> float:
    """Seconds of training between checkpoints that lose the least (Daly 2006, equation 37).

    Args:
        cost: seconds that the training waits for one checkpoint, ``δ``.
        between: mean seconds between interruptions, ``M``.

    Returns:
        ``√(2δM)·(1 + √(δ/2M)/3 + (δ/2M)/9) − δ`` for ``δ < 2M``, else ``M``.
    """
    if cost >= 2 * between:
        return between
    ratio = cost / (2 * between)
    return math.sqrt(2 * cost * between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def lost_fraction(interval: float, cost: float, between: float) -> float:
    """Part of the time that is lost, to checkpoints and to work done again (Daly 2006, equation 20).

    Interruptions come at random, at a constant rate; the time to start again is not counted.

    Args:
        interval: seconds of training between checkpoints, ``τ``.
        cost: seconds that the training waits for one checkpoint, ``δ``.
        between: mean seconds between interruptions, ``M``.

    Returns:
        ``1 − (τ/M) / (e^((τ+δ)/M) − 1)``, from 0 to 1.
    """
    exponent = (interval + cost) / between
    return 1 - interval / between / math.expm1(exponent) if exponent < 700 else 1.0

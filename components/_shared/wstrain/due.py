"""When a checkpoint is due; all that decides it is agreed on, so every rank answers alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wstrain.interval import ASSUMED_COST, best_interval


@dataclass
class Due:
    """What makes one due.

    Args:
        intervals: a checkpoint is due when the steps done are a multiple of one of these.
        between: mean seconds between interruptions, for an interval that follows from what checkpoints cost;
            0 for none.
    """

    intervals: Sequence[int] = ()
    between: float = 0.0
    _last: int = field(default=0, init=False)

    def at(self, done: int, pace: Pace) -> bool:
        """Whether one is due after ``done`` steps."""
        if any(done % interval == 0 for interval in self.intervals):
            return True
        return self.between > 0 and pace.step > 0 and done - self._last >= self.steps(pace)

    def saved(self, done: int) -> None:
        """Note that one was written, or gone on from, after ``done`` steps."""
        self._last = done

    def steps(self, pace: Pace) -> int:
        """Steps between two checkpoints, at least 1."""
        seconds = max(best_interval(pace.cost or ASSUMED_COST, self.between), pace.written)
        return max(1, round(seconds / pace.step))


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast things go, the same on every rank.

    Attributes:
        step: seconds of one optimizer step; 0 if not known yet.
        cost: seconds that the training waited for the last checkpoint; 0 if not known yet.
        written: seconds until the last checkpoint was on the disk. No other can be written meanwhile.
    """

    step: float = 0.0
    cost: float = 0.0
    written: float = 0.0

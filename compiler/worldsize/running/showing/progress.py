"""What a training step says of itself while it runs: the newest record of its progress file."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from worldsize.running.showing.logs import Follower

MOST = 1e15  # a larger count is no count, and a larger loss no news


@dataclass(frozen=True, slots=True)
class Progress:
    """One record. What the script does not report, or reports as something else than a number, is None."""

    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    loss: float | None = None
    learning_rate: float | None = None
    samples_per_second: float | None = None
    slow_rank: float | None = None  # a rank that keeps the others waiting
    slow_ratio: float | None = None  # and how many times as long it computes

    @property
    def fraction(self) -> float | None:
        """How much is done, from 0 to 1."""
        if self.step is None or not self.total_steps:
            return None
        return min(1.0, max(0.0, self.step / self.total_steps))


class ProgressFile:
    """Follows the file that WORLDSIZE_PROGRESS names; a script that ignores it leaves it empty."""

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path)
        self.newest: Progress | None = None

    def update(self) -> bool:
        """Read on; whether there was anything new."""
        for line in reversed(self._follower.lines()):
            record = parse(line)
            if record is not None:
                self.newest = record
                return True
        return False


def parse(line: str) -> Progress | None:
    """One line; None where it is no record. A user's script writes it, so anything may stand there."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    found = {name: _number(document.get(name)) for name in Progress.__slots__}
    step, total = found.pop("step"), found.pop("total_steps")
    return Progress(_whole(step), _whole(total), **found)


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and math.isfinite(value) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MOST:
        return None
    return float(value)

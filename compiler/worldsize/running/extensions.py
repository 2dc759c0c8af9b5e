"""What can be added to a schedule: a memory of earlier runs, another try after a failure, a watcher.

Each has a default that adds nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from worldsize.running.attempt import Attempt
from worldsize.running.results import Failure
from worldsize.running.tasks import Task


class Memory(Protocol):
    """Knows what steps have made before."""

    def recall(self, task: Task) -> str | None:
        """Put the outputs in place that the very same step made before.

        Returns:
            The run that made them; None where there is none, and the step has to run.

        Raises:
            OSError: the outputs cannot be put in place.
        """

    def key(self, task: Task) -> str | None:
        """What a step does, the same for the very same step; None before `recall`, or where it is unknown."""

    def keep(self, task: Task, seconds: float) -> None:
        """Remember what a step has made just now."""


class Restarts(Protocol):
    """Says whether a failed step is tried again."""

    def after(self, attempt: Attempt, failure: Failure) -> float | None:
        """Seconds to wait before the next try; None for no other."""


class Watcher(Protocol):
    """Sees what runs, a few times a second, and may interfere."""

    def tick(self, attempts: Collection[Attempt]) -> None:
        """Some time has passed; ``attempts`` hold slots now."""


class Nothing:
    """Remembers nothing and tries nothing again."""

    def recall(self, _task: Task) -> str | None:
        """Nothing."""
        return None

    def key(self, _task: Task) -> str | None:
        """Unknown."""
        return None

    def keep(self, _task: Task, _seconds: float) -> None:
        """Forget it."""

    def after(self, _attempt: Attempt, _failure: Failure) -> float | None:
        """No other try."""
        return None

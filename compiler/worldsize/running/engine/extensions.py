"""What can be added to a schedule: a cache of earlier steps, restarts, watchers, and steps that expand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from worldsize.running.engine.attempt import Attempt
from worldsize.running.model.results import Failure, StepResult
from worldsize.running.model.task import Task


class StepCache(Protocol):
    """Knows the outputs of earlier runs."""

    def recall(self, task: Task) -> str | None:
        """Put the outputs in place that the very same step made before.

        Returns:
            The run that made them; None where there is none, and the step has to run.

        Raises:
            OSError: The outputs cannot be put in place.
        """

    def key(self, task: Task) -> str | None:
        """What a step does, the same for the very same step; None before `recall`, or where it is unknown."""

    def keep(self, task: Task, seconds: float) -> None:
        """Remember the outputs of a step that has just succeeded."""


class Restarts(Protocol):
    """Says whether a failed step starts again."""

    def after(self, attempt: Attempt, failure: Failure) -> float | None:
        """Seconds to wait before the next attempt; None for no further one."""


class Watcher(Protocol):
    """Sees what runs, a few times a second, and may interfere."""

    def tick(self, attempts: Collection[Attempt]) -> None:
        """Look at the attempts that hold slots now."""


class Expansion(Protocol):
    """Decides what a step turns into.

    Its children are ordinary tasks, named ``step.child``: they wait for slots, have folders, logs and MLflow
    runs of their own. A child that fails stops no other step; the expansion says what it means.
    """

    def begin(self) -> Sequence[Task]:
        """The first children."""

    def ended(self, child: str, result: StepResult) -> Sequence[Task]:
        """A child has ended; those that follow it."""

    def to_stop(self) -> Sequence[str]:
        """Names of running children to stop now; asked a few times a second."""

    @property
    def done(self) -> bool:
        """Whether no further child follows; once no child runs the step is over."""

    @property
    def summary(self) -> str | None:
        """What came of it, in words, once it is over."""

    def finish(self) -> Failure | None:
        """Put the step's outputs in place once it is over; why it failed, or None where it succeeded."""


@dataclass(frozen=True, slots=True)
class Extensions:
    """What the options of a run add to its schedule; ``expansions`` by the name of the step."""

    cache: StepCache
    restarts: Restarts
    watchers: Sequence[Watcher]
    expansions: Mapping[str, Expansion]

"""Steps that turn into further steps while they run, such as a sweep into its trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from worldsize.running.results import Failure, StepResult
from worldsize.running.tasks import Task


class Expansion(Protocol):
    """Decides what a step turns into.

    Its children are ordinary tasks, named ``step.child``: they wait for slots, have folders, logs and MLflow
    runs of their own. A child that fails stops nobody; what that means is for the expansion to say.
    """

    def begin(self) -> Sequence[Task]:
        """The first children."""

    def ended(self, child: str, result: StepResult) -> Sequence[Task]:
        """A child has ended; those that follow it."""

    def to_stop(self) -> Sequence[str]:
        """Names of running children to stop now; asked a few times a second."""

    @property
    def done(self) -> bool:
        """Whether nothing follows any more; with no child left running the step is over."""

    @property
    def summary(self) -> str | None:
        """What came of it, in words, once it is over."""

    def finish(self) -> Failure | None:
        """Put the step's outputs in place once it is over; why it failed, or None where it succeeded."""

"""What a view shows of a running step, and the contract of a view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from worldsize.running.model.results import StepState

if TYPE_CHECKING:
    from typing_extensions import Self


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


@dataclass(slots=True)
class Status:
    """Where a step is. ``started`` is a monotonic time."""

    name: str
    state: StepState = "waiting"
    processes: int = 1
    started: float | None = None
    seconds: float = 0.0
    progress: Progress | None = None

    def elapsed(self, now: float) -> float:
        """Seconds since it started, or that it took."""
        return self.seconds if self.started is None or self.seconds else now - self.started


class View(Protocol):
    """Shows a run. It is a context manager; inside, the terminal is the view's."""

    def notice(self, text: str) -> None:
        """Say something once."""

    def warn(self, text: str) -> None:
        """Say once what is not as it should be, also to those who want to hear little."""

    def changed(self, status: Status) -> None:
        """A step has another state."""

    def tick(self, statuses: Mapping[str, Status]) -> None:
        """Some time has passed."""

    def __enter__(self) -> Self:
        """Take the terminal."""

    def __exit__(self, *_: object) -> None:
        """Give it back."""

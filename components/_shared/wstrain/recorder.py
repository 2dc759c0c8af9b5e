"""Losses of every step, averaged over ranks and reported without slowing the loop."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from wstrain.errors import UserError
from wstrain.launch import Launch
from wstrain.progress import Progress
from wstrain.tracking import Point, Tracker

WINDOW_SECONDS = 0.25
LONGEST_WINDOW = 100  # steps
PRINT_SECONDS = 10.0


class Ranks(Protocol):
    """What is needed of the ranks, whatever their framework."""

    @property
    def launch(self) -> Launch:
        """Who this process is."""

    def average(self, losses: Sequence[Any], seconds: float) -> tuple[list[float], float]:
        """Average 0-d tensors, and a time, over ranks; every rank calls it for the same steps."""


@dataclass
class StepRecorder:
    """Collects local losses on the device and averages a window of them in one exchange.

    An exchange, and a wait for the device, at every step would cost more than a small model's step. The
    length of the window follows from the time of the last one, averaged over ranks, so all ranks agree on
    it.

    Args:
        group: the ranks.
        total_steps: of the whole training.
        steps_per_epoch: for the fraction of epochs done.
        global_batch: samples a step.
        tracker: MLflow, on rank 0.
        progress: the live view, on rank 0.
    """

    group: Ranks
    total_steps: int
    steps_per_epoch: int
    global_batch: int
    tracker: Tracker | None
    progress: Progress
    _held: list[tuple[int, Any, float]] = field(default_factory=list)
    _window: int = 1
    _since: float = field(default_factory=time.perf_counter)
    _printed: float = 0.0
    _done: int = 0
    _last: dict[str, float] = field(default_factory=dict)

    def step(self, step: int, loss: Any, learning_rate: float) -> None:
        """Note one step."""
        self._held.append((step, loss, learning_rate))
        if len(self._held) >= self._window:
            self._report()
            self._announce(final=False)

    def finish(self) -> dict[str, float]:
        """Report the rest; return the values of the last step."""
        if self._held:
            self._report()
        self._announce(final=True)
        return dict(self._last)

    def _report(self) -> None:
        seconds = (time.perf_counter() - self._since) / len(self._held)
        means, seconds = self.group.average([loss for _, loss, _ in self._held], seconds)
        seconds = max(seconds, 1e-9)
        for (step, _, rate), loss in zip(self._held, means, strict=True):
            _refuse_non_finite(loss, step + 1)
            self._note(step + 1, loss, rate, self.global_batch / seconds)
        self._window = min(max(round(WINDOW_SECONDS / seconds), 1), LONGEST_WINDOW)
        self._held.clear()
        self._since = time.perf_counter()

    def _note(self, done: int, loss: float, rate: float, speed: float) -> None:
        epoch = done / self.steps_per_epoch
        self._done = done
        self._last = {"loss": loss, "learning_rate": rate, "samples_per_second": speed, "epoch": epoch}
        if self.tracker:
            self.tracker.log(Point(done, self._last), always=done == self.total_steps)

    def _announce(self, *, final: bool) -> None:
        if not self._last or not self.group.launch.is_main:
            return
        self.progress.report({"step": self._done, "total_steps": self.total_steps, **self._last}, final=final)
        now = time.monotonic()
        if final or now - self._printed >= PRINT_SECONDS:
            self._printed = now
            print(_line(self._done, self.total_steps, self._last), flush=True)


def _line(step: int, total: int, last: dict[str, float]) -> str:
    return (
        f"step {step}/{total}  epoch {last['epoch']:.2f}  loss {last['loss']:.4f}"
        f"  learning rate {last['learning_rate']:.3g}  {last['samples_per_second']:,.0f} samples/s"
    )


def _refuse_non_finite(loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise UserError(
            f"the loss of step {step} is {loss}",
            "lower the learning rate or warm up for longer; the last checkpoint is from before",
        )

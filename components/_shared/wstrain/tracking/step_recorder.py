"""Records the loss of every step, averaged over ranks, and reports it without slowing the loop."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wsshards.errors import print_warning
from wstrain.health import non_finite
from wstrain.health.heartbeat import Heartbeat
from wstrain.health.straggler import SlowRank, StragglerDetector

if TYPE_CHECKING:
    from wstrain.tracking.mlflow_tracker import Tracker

WINDOW_SECONDS = 0.25
GPU_WINDOW_SECONDS = 1.0  # each ends with a wait for the GPU, which then has no work for some milliseconds
MAX_WINDOW_STEPS = 100  # steps
PRINT_SECONDS = 10.0
MAX_TIMED_RANKS = 64  # whose times are recorded
MAX_TIMES = 400  # records of them that a run keeps
RANK_TIMES = "rank_times.jsonl"  # the file of them among the artifacts of the run in MLflow


class Ranks(Protocol):
    """The ranks, in any framework."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes metrics, checkpoints and the model."""

    def average(
        self, losses: Sequence[Any], seconds: float, compute_seconds: float
    ) -> tuple[list[float], float, list[float]]:
        """Average 0-d tensors and a time over ranks; every rank calls it for the same steps.

        Args:
            losses: this rank's.
            seconds: that a step took.
            compute_seconds: that this rank computed in a step.

        Returns:
            The mean losses, the mean seconds, and ``compute_seconds`` of every rank.
        """

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, by rank."""

    def title(self, rank: int) -> str:
        """Return a rank's name in messages, with its machine."""


@dataclass
class StepRecorder:
    """Collects local losses on the device and averages a window of them in one exchange.

    An exchange and a wait for the device at every step would cost more than a small model's step. The length
    of the window follows from the time of the last one, averaged over ranks, so it is the same on all ranks.

    Args:
        group: the ranks.
        total_steps: of the whole training.
        steps_per_epoch: for the fraction of epochs done.
        global_batch: samples a step.
        tracker: MLflow, on rank 0.
        progress: the live view, on rank 0.
        heartbeat: measures how long this rank computes.
        last_checkpoint: returns the name of the newest one.
        overflows: steps in a row whose loss may overflow, as a loss scale skips them.
        inspect: checks the weights after the given number of steps.
        window_seconds: from one exchange to the next.
    """

    group: Ranks
    total_steps: int
    steps_per_epoch: int
    global_batch: int
    tracker: Tracker | None
    progress: Progress
    heartbeat: Heartbeat | None = None
    last_checkpoint: Callable[[], str | None] = lambda: None
    overflows: int = 0
    inspect: Callable[[int], None] = lambda _: None
    window_seconds: float = WINDOW_SECONDS
    _straggler: StragglerDetector = field(default_factory=StragglerDetector)
    _slow: SlowRank | None = None
    _overflowed: int = 0
    _held: list[tuple[int, Any, float]] = field(default_factory=list)
    _window: int = 1
    _since: float = field(default_factory=time.perf_counter)
    _printed: float = 0.0
    _done: int = 0
    _trained_seconds: float = 0.0
    _computed_seconds: list[float] = field(default_factory=list)  # of each rank
    _times: list[dict[str, Any]] = field(default_factory=list)
    _stride: int = 1  # of the windows whose times are kept
    _windows: int = 0
    _last: dict[str, float] = field(default_factory=dict)
    _validation: dict[str, float] = field(default_factory=dict)

    def step(self, step: int, loss: Any, learning_rate: float) -> None:
        """Note one step."""
        self._held.append((step, loss, learning_rate))
        if len(self._held) >= self._window:
            self._report()
            self._show(final=False)

    def settle(self) -> None:
        """Check that losses and weights are finite before the state is saved; called on every rank.

        Raises:
            UserError: a loss or a weight is not finite.
        """
        self.report_held()
        self.inspect(self._done)

    def note_validation(self, done: int, metrics: Mapping[str, float], seconds: float) -> None:
        """Report a validation, whose time no step took.

        Args:
            done: finished steps.
            metrics: by name, with ``validation_``.
            seconds: that it took.
        """
        self._validation = dict(metrics)
        self._since = time.perf_counter()
        if self.heartbeat:
            self.heartbeat.exclude(seconds)
        if self.tracker:
            self.tracker.log(done, {**metrics, "validation_seconds": seconds}, always=True)
        if self.group.is_main:
            values = "  ".join(f"{name} {value:.6g}" for name, value in metrics.items())
            print(f"step {done}/{self.total_steps}  {values}", flush=True)
            self._show(final=True)

    def report_held(self) -> None:
        """Report the steps so far, before time passes that is not theirs; called on every rank."""
        if self._held:
            self._report()

    def finish(self) -> dict[str, float]:
        """Report the rest; return the values of the last step."""
        self.report_held()
        self._show(final=True)
        if self.tracker and self._times:
            self.tracker.log_lines(RANK_TIMES, self._times)
        return {**self._last, **self._validation}

    def _report(self) -> None:
        seconds = (time.perf_counter() - self._since) / len(self._held)
        compute_seconds = self.heartbeat.take_compute_seconds() if self.heartbeat else 0.0
        means, seconds, ranks = self.group.average(
            [loss for _, loss, _ in self._held], seconds, compute_seconds
        )
        seconds = max(seconds, 1e-9)
        for (step, local_loss, rate), loss in zip(self._held, means, strict=True):
            if math.isfinite(loss):
                self._overflowed = 0
                self._note(step + 1, loss, rate, self.global_batch / seconds)
            else:
                self._refuse(non_finite.BadStep(step + 1, loss, rate, (), len(ranks)), local_loss)
        self._watch_for_slow(ranks)
        self._add_times(seconds, ranks)
        self._window = min(max(round(self.window_seconds / seconds), 1), MAX_WINDOW_STEPS)
        self._held.clear()
        self._since = time.perf_counter()

    def _refuse(self, bad: non_finite.BadStep, local_loss: Any) -> None:
        """Stop for a mean loss that is not finite; as the mean is the same, all ranks do."""
        self._overflowed += 1
        if self._overflowed <= self.overflows:
            return
        self.last_checkpoint()  # waits until the newest is written
        flags = self.group.gather(not math.isfinite(float(local_loss)))
        ranks = [rank for rank, is_bad in enumerate(flags) if is_bad]
        raise non_finite.non_finite_error(replace(bad, bad_ranks=ranks), self.last_checkpoint())

    def _watch_for_slow(self, compute_seconds: Sequence[float]) -> None:
        slow = self._straggler.note(compute_seconds, len(self._held))
        if slow is None:
            return
        self._slow = slow
        if self.group.is_main:
            print_warning(_describe_slow(slow, self.group.title(slow.rank)))

    def _add_times(self, seconds: float, compute_seconds: Sequence[float]) -> None:
        """Add the steps held to the totals; what a rank did not compute, it waited, exchanged or updated."""
        steps = len(self._held)
        self._trained_seconds += seconds * steps
        before = self._computed_seconds or [0.0] * len(compute_seconds)
        self._computed_seconds = [
            total + own * steps for total, own in zip(before, compute_seconds, strict=True)
        ]

        if self.tracker and self._is_timed:
            self._keep_time()

    @property
    def _is_timed(self) -> bool:
        return any(self._computed_seconds) and len(self._computed_seconds) <= MAX_TIMED_RANKS

    def _time(self) -> dict[str, Any]:
        return {
            "trained_seconds": round(self._trained_seconds, 4),
            "computed_seconds": [round(seconds, 4) for seconds in self._computed_seconds],
        }

    def _keep_time(self) -> None:
        """Keep the times of this window; of a long training, of every second, fourth, … window."""
        self._windows += 1
        if self._windows % self._stride:
            return
        self._times.append({"step": self._done, "time": round(time.time(), 3), **self._time()})
        if len(self._times) >= MAX_TIMES:
            self._times = self._times[1::2]
            self._stride *= 2

    def _note(self, done: int, loss: float, rate: float, speed: float) -> None:
        epoch = done / self.steps_per_epoch
        self._done = done
        self._last = {"loss": loss, "learning_rate": rate, "samples_per_second": speed, "epoch": epoch}
        if self.tracker:
            self.tracker.log(done, self._last, always=done == self.total_steps)

    def _show(self, *, final: bool) -> None:
        if not self._last or not self.group.is_main:
            return
        record: dict[str, Any] = {"step": self._done, "total_steps": self.total_steps, **self._last}
        record |= self._validation
        if self._is_timed:
            record |= self._time()
        if self._slow is not None:
            record |= {"slow_rank": self._slow.rank, "slow_ratio": round(self._slow.ratio, 3)}
        self.progress.report(record, final=final)
        now = time.monotonic()
        if final or now - self._printed >= PRINT_SECONDS:
            self._printed = now
            print(_line(self._done, self.total_steps, self._last), flush=True)


def _line(step: int, total: int, last: dict[str, float]) -> str:
    return (
        f"step {step}/{total}  epoch {last['epoch']:.2f}  loss {last['loss']:.4f}"
        f"  learning rate {last['learning_rate']:.3g}  {last['samples_per_second']:,.0f} samples/s"
    )


def _describe_slow(slow: SlowRank, title: str) -> str:
    return (
        f"{title} is {slow.ratio:.1f} times as slow as the others: it computes {slow.seconds * 1000:.1f} ms"
        f" a step, they {slow.others * 1000:.1f} ms and then wait"
    )


PROGRESS_SECONDS = 0.2


class Progress:
    """The live view: appends JSON lines to the file that ``WORLDSIZE_PROGRESS`` names, at most five a second.

    Args:
        path: the file, or None to write nothing.
    """

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._last = 0.0

    def report(self, record: Mapping[str, Any], *, final: bool = False) -> None:
        """Append one record with the time of day, unless the last one is too recent; the final one always."""
        now = time.monotonic()
        if self._path is None or (now - self._last < PROGRESS_SECONDS and not final):
            return
        self._last = now
        try:
            # Opened for each record, so that a reader sees each line at once and whole.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**record, "time": round(time.time(), 3)}) + "\n")
        except OSError:
            self._path = None  # a live view that cannot be written must not end a training

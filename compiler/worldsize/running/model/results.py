"""A run and its steps as data: their state while they run, and what they leave behind."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from worldsize.base.wording import join_words
from worldsize.running.model.process import Process

StepState = Literal["waiting", "preparing", "running", "succeeded", "reused", "failed", "stopped"]
DONE: tuple[StepState, ...] = ("succeeded", "reused")  # states with outputs
RunState = Literal["succeeded", "failed", "interrupted"]

MAX_NAMES = 6
MAX_ROWS = 300  # in a notebook


class Failure(Struct, frozen=True):
    """Why a step failed: the process that failed first, and the end of what it wrote."""

    process: str | None  # "rank-1"; None if no process is to blame
    rank: int | None
    status: int | None  # exit status; a signal as a negative number
    log: Path | None
    last_lines: tuple[str, ...]
    message: str  # "rank 1 ended with exit status 3", "worker 1 was killed by SIGKILL"
    notes: tuple[str, ...] = ()  # consequences, such as "3 other ranks failed because of it"


class StepResult(Struct, frozen=True):
    """One step of a run. ``seconds`` is 0 for a step that never started."""

    name: str
    state: StepState
    seconds: float
    folder: Path
    outputs: Mapping[str, Path]
    failure: Failure | None = None
    parent: str | None = None  # the step that expanded into this one, and judges its end
    summary: str | None = None  # the result of a step that expanded, such as the best trial of a sweep
    warnings: tuple[str, ...] = ()  # of its component, without secrets
    best: str | None = None  # the step that gave it its outputs
    score: float | None = None  # the value of the primary metric in that step

    @property
    def logs(self) -> tuple[Path, ...]:
        """The log of each process, by rank."""
        paths = (self.folder / "logs").glob("*.log")
        return tuple(sorted(paths, key=lambda path: (len(path.name), path.name)))


class Registration(Struct, frozen=True):
    """A model that the run registered, or the reason why it did not."""

    name: str
    version: str | None
    reason: str | None = None


class RunResult(Struct, frozen=True):
    """A finished run."""

    id: str
    folder: Path
    state: RunState
    steps: Mapping[str, StepResult]
    seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    registrations: tuple[Registration, ...] = ()
    tracking_uri: str | None = None  # None if the run was not tracked
    untracked: str | None = None  # why it was not, although it should have been
    record_incomplete: bool = False  # whether MLflow's record of it lacks something
    notices: tuple[str, ...] = ()
    signal: int | None = None  # the signal that interrupted it

    @property
    def outputs(self) -> dict[str, Path]:
        """The outputs of the pipeline that the run has written, by name."""
        return list_outputs(self.folder)

    @property
    def failure(self) -> Failure | None:
        """Why the run failed."""
        failures = (step.failure for step in self.steps.values() if step.parent is None)
        return next((failure for failure in failures if failure), None)

    def __str__(self) -> str:
        """The state of the run and of its steps, its metrics and models, a line each."""
        lines = ["  ".join(cell for cell in row if cell) for row in self._list_rows()]
        why = [self.failure.message] if self.failure is not None else []
        return "\n".join([self._make_title, *(f"  {line}" for line in lines + why)])

    def _repr_html_(self) -> str:
        """The steps, metrics and models as a table for a notebook."""
        from worldsize.base.shown_text import render_html_table

        note = self.failure.message if self.failure is not None else ""
        rows = self._list_rows()[:MAX_ROWS]
        return render_html_table(self._make_title, ("", "name", "value", ""), rows, note)

    @property
    def _make_title(self) -> str:
        return f"Run {self.id}: {self.state} after {self.seconds:.1f} s"

    def _list_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            ("step", step.name, step.state, f"{step.seconds:.1f} s") for step in self.steps.values()
        ]
        rows += [("metric", name, f"{value:.6g}", "") for name, value in self.metrics.items()]
        for model in self.registrations:
            state = f"version {model.version}" if model.version else "not registered"
            rows.append(("model", model.name, state, model.reason or ""))
        return rows

    @property
    def exit_code(self) -> int:
        """0, 1 for a failed step or an incomplete record in MLflow, 128 + the signal of an interruption."""
        if self.state == "interrupted":
            return 128 + (self.signal or signal.SIGINT)
        return 0 if self.state == "succeeded" and not self.record_incomplete else 1


def list_outputs(folder: Path) -> dict[str, Path]:
    """The outputs of the pipeline in the folder of a run, each a link to what its step has written."""
    try:
        return {path.name: path for path in sorted((folder / "outputs").iterdir()) if path.exists()}
    except OSError:  # the pipeline declares none
        return {}


def failure_of_step(message: str) -> Failure:
    """A failure for which no process is to blame."""
    return Failure(None, None, None, None, (), message)


def describe_running(running: Sequence[Process], ranks: Sequence[Process]) -> str:
    """Describe which processes of a group had not ended, and which had."""
    running_ranks = [process for process in ranks if process in running]
    ended_ranks = [process for process in ranks if process not in running and not process.serves]
    if not running_ranks:
        return "when every process had ended"
    text = f"when {_join_titles(running_ranks)} still ran"
    return f"{text} and {_join_titles(ended_ranks)} had ended" if ended_ranks else text


def _join_titles(processes: Sequence[Process]) -> str:
    return join_some([process.title for process in processes], MAX_NAMES)


def join_some(words: Sequence[str], most: int) -> str:
    """``a, b and c``; more than ``most`` words end in ``and 3 more``."""
    shown = words if len(words) <= most else [*words[: most - 1], f"{len(words) - most + 1} more"]
    return join_words(shown, "and")


def describe_ending(name: str, status: int) -> str:
    """Describe how a process ended."""
    if status >= 0:
        return f"{name} ended with exit status {status}"
    try:
        return f"{name} was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"{name} was killed by signal {-status}"


class Progress(Struct, frozen=True):
    """One record. Values that the script does not report, or not as numbers, are None."""

    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    loss: float | None = None
    learning_rate: float | None = None
    samples_per_second: float | None = None
    slow_rank: float | None = None  # a rank that the others wait for
    slow_ratio: float | None = None  # how many times as long it computes
    validation_loss: float | None = None

    @property
    def fraction(self) -> float | None:
        """How much is done, from 0 to 1."""
        if self.step is None or not self.total_steps:
            return None
        return min(1.0, max(0.0, self.step / self.total_steps))


class Status(Struct):
    """The state of a step. ``started`` is a monotonic time."""

    name: str
    state: StepState = "waiting"
    processes: int = 1
    started: float | None = None
    seconds: float = 0.0
    progress: Progress | None = None

    def elapsed(self, now: float) -> float:
        """Seconds since it started, or its duration."""
        return self.seconds if self.started is None or self.seconds else now - self.started


class View(AbstractContextManager["View"], Protocol):
    """Shows a run. It is a context manager, inside of which the view controls the terminal."""

    def notice(self, text: str) -> None:
        """Show a notice."""

    def warn(self, text: str) -> None:
        """Show a warning, even if the user wants little output."""

    def changed(self, status: Status) -> None:
        """Show the new state of a step."""

    def tick(self, statuses: Mapping[str, Status]) -> None:
        """Update the view."""

    def __exit__(self, *_: object) -> None:
        """Release the terminal."""

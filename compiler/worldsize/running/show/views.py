"""What logs and pipes show of a run: its views while it is active, and its summary."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from worldsize.base.shown_text import mark_controls
from worldsize.base.wording import format_duration
from worldsize.documents.diagnostics.snippet import flatten
from worldsize.documents.diagnostics.text import is_terminal
from worldsize.documents.secrecy.masking import Mask
from worldsize.running.model.folder import HOME, show_path
from worldsize.running.model.results import Failure, Progress, Registration, RunResult, Status, View
from wsmetrics.names import choose_headline, describe_uninformed

if TYPE_CHECKING:
    from typing_extensions import Self

PROGRESS_SECONDS = 5.0
HINT_SECONDS = 30.0  # a step that is shorter needs no hint


def wants_table(stream: TextIO) -> bool:
    """Whether a stream shows a table that is redrawn: a terminal that moves its cursor, and no CI job."""
    dumb = os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return is_terminal(stream) and not dumb and not in_ci


class PlainView(AbstractContextManager["PlainView"]):
    """Lines without times of day: one when a step changes, one every few seconds of progress.

    A step that reports no progress leaves a reader with silence: ``hint`` is said once, of the first of them.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        hint: Callable[[str], str] | None = None,
    ) -> None:
        self._write = write
        self._clock = clock
        self._hint = hint
        self._said: dict[str, tuple[float, Progress | None]] = {}

    def notice(self, text: str) -> None:
        """Write it."""
        self._write(mark_controls(text))

    warn = notice

    def changed(self, status: Status) -> None:
        """Write the states that a reader needs."""
        if status.state == "running":
            self._said[status.name] = (self._clock(), None)
            count = f", {status.processes} processes" if status.processes > 1 else ""
            self._write(f"{status.name}: running{count}")
        elif status.state == "reused":
            self._write(f"{status.name}: reused")
        elif status.state == "succeeded" and status.started is None:
            self._write(f"{status.name}: had succeeded")
        elif status.state in ("succeeded", "failed") or (status.state == "stopped" and status.started):
            said = self._said.get(status.name, (0.0, None))[1]
            last = format_progress(status.progress) if status.progress is not None else None
            if last is not None and (said is None or format_progress(said) != last):
                self._write(f"{status.name}: {last}")
            self._write(f"{status.name}: {status.state} after {format_duration(status.seconds)}")

    def tick(self, statuses: Mapping[str, Status]) -> None:
        """Write new progress every few seconds."""
        now = self._clock()
        for status in statuses.values():
            if status.state != "running":
                continue
            if status.progress is None:
                self._say_hint(status.name, now)
                continue
            when, what = self._said.get(status.name, (0.0, None))
            if status.progress != what and now - when >= PROGRESS_SECONDS:
                self._said[status.name] = (now, status.progress)
                self._write(f"{status.name}: {format_progress(status.progress)}")

    def _say_hint(self, name: str, now: float) -> None:
        if self._hint is not None and now - self._said.get(name, (now, None))[0] >= HINT_SECONDS:
            self._write(f"{name}: {self._hint(name)}")
            self._hint = None

    def __exit__(self, *_: object) -> None:
        pass


class MaskedView:
    """Another view, from which secrets are hidden."""

    def __init__(self, view: View, mask: Mask) -> None:
        self._view, self._mask = view, mask
        self.changed, self.tick = view.changed, view.tick

    def notice(self, text: str) -> None:
        """Show a masked notice."""
        self._view.notice(self._mask.text(text))

    def warn(self, text: str) -> None:
        """Show a masked warning."""
        self._view.warn(self._mask.text(text))

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._view.__exit__(*error)


class QuietView(PlainView):
    """Shows warnings only, or nothing."""

    def __init__(self, warn: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(lambda _line: None)
        self._warn = warn

    def warn(self, text: str) -> None:
        """Write it."""
        self._warn(mark_controls(text))


def format_progress(progress: Progress) -> str:
    """``step 20/140, loss 1.2345, 812 samples/s``."""
    parts = []
    if progress.step is not None:
        total = f"/{progress.total_steps}" if progress.total_steps else ""
        parts.append(f"step {progress.step}{total}")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.validation_loss is not None:
        parts.append(f"validation loss {progress.validation_loss:.4f}")
    if progress.samples_per_second is not None:
        parts.append(f"{progress.samples_per_second:,.0f} samples/s")
    return ", ".join(parts) or "running"


MAX_METRICS = 8  # of more, only those that say most are shown


def render_summary(result: RunResult, *, steps: bool = True, report: Path | None = None) -> str:
    """The summary as text; without ``steps`` if a table has shown them, with the page of the run if any."""
    lines = [
        *_list_failures(result),
        f"run {result.id} {result.state} after {format_duration(result.seconds)}",
    ]
    if steps:
        lines += _list_steps(result)
    return mark_controls("\n".join([*lines, *_list_outcome(result, report)])) + "\n"


def _list_steps(result: RunResult) -> Iterator[str]:
    steps = [*result.steps.values()]
    if len(steps) > 20:
        steps = [step for step in steps if step.state != "succeeded"] or steps
    width = max(len(step.name) for step in steps)
    for step in steps:
        yield f"  {format_step(step.name, width, step.state, step.seconds)}"
        if step.summary is not None:
            yield f"    {flatten(step.summary)}"
        yield from (f"    {text}" for text in step.warnings)


def format_step(name: str, width: int, state: str, seconds: float, note: str = "") -> str:
    """The row of a step in the table of a run or job."""
    time = format_duration(seconds) if seconds else ""
    return f"{name:<{width}}  {describe_state(state):<11}  {time:>9}  {note}".rstrip()


def describe_state(state: str) -> str:
    """The word for a step's state."""
    return "not started" if state == "waiting" else state


def _list_outcome(result: RunResult, report: Path | None) -> Iterator[str]:
    rows = [("folder", show_path(result.folder))]
    rows += [("report", show_path(report))] if report is not None else []
    rows += [("metrics", text) for text in _list_metrics(result)]
    rows += [("output", f"{name}: {show_path(path)}") for name, path in result.outputs.items()]
    rows += [("model", text) for text in _list_models(result)]
    if result.tracking_uri is not None:
        rows.append(("mlflow", mlflow_ui(result.tracking_uri)))
    elif result.untracked:
        rows.append(("mlflow", f"not tracked: {flatten(result.untracked)}"))
    if result.state != "succeeded":
        home = show_path(result.folder.parents[1])
        elsewhere = f" --runs-dir {shlex.quote(home)}" if home != HOME else ""
        rows.append(("resume", f"worldsize resume {result.id}{elsewhere}"))
    yield from (f"  {name:<7}  {text}" for name, text in rows)


def _list_metrics(result: RunResult) -> Iterator[str]:
    names = list(result.metrics)
    if len(names) > MAX_METRICS:
        names = choose_headline(result.metrics) or names[:MAX_METRICS]
    if names:
        more = len(result.metrics) - len(names)
        beside = {name: f" ({flatten(text)})" for name, text in describe_uninformed(result.metrics).items()}
        listed = ", ".join(f"{name} {result.metrics[name]:.4g}{beside.get(name, '')}" for name in names)
        yield listed + (f" and {more} more" if more else "")


def _list_models(result: RunResult) -> Iterator[str]:
    for model in result.registrations:
        # Without tracking, MLflow makes a registry in the working folder of the step.
        private = model.version is not None and result.tracking_uri is None
        yield describe_registration(model) + (", in this run's folder only" if private else "")


def describe_registration(model: Registration) -> str:
    """The name and version of a model, or why it has none."""
    if model.version is not None:
        return f"{model.name} version {model.version}"
    return f"{model.name} was not registered" + (f": {model.reason}" if model.reason else "")


def _list_failures(result: RunResult) -> Iterator[str]:
    for step in result.steps.values():
        if step.failure is not None and step.parent is None:
            yield from _describe_failure(step.name, step.failure)
    if result.record_incomplete:
        yield f"error: the record of this run in MLflow is incomplete: {flatten(str(result.untracked))}"
        yield "  what the run made is in its folder; `worldsize show` says how each step ended"
        yield ""


def _describe_failure(step: str, failure: Failure) -> Iterator[str]:
    yield f"error: step `{step}` failed: {failure.message}"
    if failure.log is not None:
        tail = "its last lines:" if failure.last_lines else "which is empty"
        yield f"  log: {show_path(failure.log)}, {tail}"
        yield from (f"  | {flatten(line.expandtabs())}" for line in failure.last_lines)
    yield from (f"  {flatten(note)}" for note in failure.notes)
    yield ""


def mlflow_ui(uri: str) -> str:
    """The command that shows the runs in a browser of this machine only."""
    database = show_path(uri.removeprefix("sqlite:///"))
    program = "mlflow"
    beside = Path(sys.executable).parent / "mlflow"
    on_path = shutil.which("mlflow")
    if beside.exists() and (on_path is None or Path(on_path).resolve() != beside.resolve()):
        program = show_path(beside)
    store = shlex.quote(f"sqlite:///{database}")
    return f"{shlex.quote(program)} ui --host 127.0.0.1 --backend-store-uri {store}"

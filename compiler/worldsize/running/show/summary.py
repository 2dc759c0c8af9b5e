"""The summary of a run: its folder and results, or what failed and why."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from worldsize.base.wording import format_duration
from worldsize.documents.diagnostics.snippet import flatten, mark_controls
from worldsize.running.model.folder import HOME, show_path
from worldsize.running.model.results import Failure, Registration, RunResult, StepResult
from wsmetrics.names import choose_headline, describe_constant

MAX_METRICS = 8  # of more, only those that say most are shown


def render_summary(result: RunResult, *, steps: bool = True, report: Path | None = None) -> str:
    """The summary as text; without ``steps`` if a table has shown them, with the page of the run if any."""
    lines = [
        *_list_failures(result),
        *_list_incomplete(result),
        f"run {result.id} {result.state} after {format_duration(result.seconds)}",
    ]
    if steps:
        lines += _list_steps(result)
    return mark_controls("\n".join([*lines, *_list_outcome(result, report)])) + "\n"


def _list_steps(result: RunResult) -> Iterator[str]:
    steps = [step for step in result.steps.values() if step.state != "succeeded"] or [*result.steps.values()]
    if len(result.steps) <= 20:
        steps = [*result.steps.values()]
    width = max(len(step.name) for step in steps)
    for step in steps:
        time = format_duration(step.seconds) if step.seconds else ""
        yield f"  {step.name:<{width}}  {_describe_state(step):<11}  {time:>9}".rstrip()
        if step.summary is not None:
            yield f"    {flatten(step.summary)}"


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
        rows.append(("resume", _write_resume(result)))
    yield from (f"  {name:<7}  {text}" for name, text in rows)


def _write_resume(result: RunResult) -> str:
    home = show_path(result.folder.parents[1])
    elsewhere = f" --runs-dir {shlex.quote(home)}" if home != HOME else ""
    return f"worldsize resume {result.id}{elsewhere}"


def _describe_state(step: StepResult) -> str:
    return "not started" if step.state == "waiting" else step.state


def _list_metrics(result: RunResult) -> Iterator[str]:
    names = list(result.metrics)
    if len(names) > MAX_METRICS:
        names = choose_headline(result.metrics) or names[:MAX_METRICS]
    if names:
        more = len(result.metrics) - len(names)
        constant = describe_constant(result.metrics)
        beside = {"accuracy": f" ({flatten(constant)})"} if constant else {}
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


def _list_incomplete(result: RunResult) -> Iterator[str]:
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
    database = Path(uri.removeprefix("sqlite:///"))
    program = "mlflow"
    beside = Path(sys.executable).parent / "mlflow"
    on_path = shutil.which("mlflow")
    if beside.exists() and (on_path is None or Path(on_path).resolve() != beside.resolve()):
        program = show_path(beside)
    return f"{shlex.quote(program)} ui --host 127.0.0.1 --backend-store-uri {shlex.quote(f'sqlite:///{show_path(database)}')}"

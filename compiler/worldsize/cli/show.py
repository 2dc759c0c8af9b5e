"""`worldsize show`: shows one run as indented text, or as JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worldsize.base.wording import format_duration, plural, shorten, show_number
from worldsize.cli import common, run_folders, speed_view, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.documents.diagnostics.snippet import flatten
from worldsize.planning.estimates import prediction
from worldsize.planning.estimates.calibration import SPEED
from worldsize.remote import jobs
from worldsize.reporting.curves import LoggedDetails
from worldsize.reporting.sweeps import rank_trials, read_sweeps
from worldsize.running.model.folder import show_place
from worldsize.running.record.history import load_run
from worldsize.running.show.views import describe_registration, format_step

if TYPE_CHECKING:
    from worldsize.planning.estimates.measured_case import ComparedSpeed
    from worldsize.reporting.model import SweepFacts
    from worldsize.running.record.details import RunDetails
    from worldsize.running.record.history import RunRecord, StepRecord

DEEPEST = 8  # levels of indentation: a chain of a thousand steps must fit the page
LONGEST_VALUE = 80
LAST_LINES = 5
MOST_METRICS = 60  # of one step, as text
MAX_TRIALS = 100  # that are printed
LONGEST_TRIAL_VALUE = 30
EPILOG = """\b
Examples:
  worldsize show                 the graph of the newest run
  worldsize show 20260102-03     a run by the beginning of its id
  worldsize show last --json     everything, for a program
  worldsize show JOB --azure     a job in a workspace in Azure

A step is indented below the steps that it needs, which follow `<-`.
"""


@click.command(epilog=EPILOG)
@click.argument("run", metavar="[RUN]", default="last", shell_complete=run_folders.complete_runs)
@run_folders.runs_dir
@common.json_option
@workspace_options.of_azure
def command(run: str, home: Path, azure: WorkspaceChoice | None, *, as_json: bool) -> None:
    """Show a run: its steps, their states, times, parameters, metrics and outputs."""
    if azure is not None:
        with azure.connect() as rest:
            job = jobs.read_job(rest, run)
            _show(job.record, job, {}, as_json=as_json)
        return
    record = load_run(run_folders.find_run(home, run))
    sweeps = {sweep.step: sweep for sweep in read_sweeps(record)}
    _show(record, LoggedDetails(record), sweeps, as_json=as_json)


def _show(run: RunRecord, details: RunDetails, sweeps: Mapping[str, SweepFacts], *, as_json: bool) -> None:
    if as_json:
        shown = {name: _describe_sweep(sweep) for name, sweep in sweeps.items()}
        click.echo(json.dumps({**document(run, details), "sweeps": shown}, indent=2))
    else:
        common.say("\n".join(_render(run, details, sweeps)))


def _render(run: RunRecord, details: RunDetails, sweeps: Mapping[str, SweepFacts]) -> Iterator[str]:
    """The run as lines; the trials of a sweep as a table below their step."""
    yield f"run {run.id} {run.state}" + (f" after {format_duration(run.seconds)}" if run.started else "")
    rows = [
        ("pipeline", run.reference or show_place(run.pipeline)),
        ("started", common.format_time(run.started)),
    ]
    rows += [(name, show_place(place)) for name, place in details.links().items()]
    rows.append(("resumed", {0: "", 1: "once"}.get(run.resumed, f"{run.resumed} times")))
    if run.damaged:
        lines, are = plural(run.damaged, "line"), "is" if run.damaged == 1 else "are"
        rows.append(("note", f"of its event log {lines} cannot be read and {are} left out"))
    margin = max((len(name) for name, text in rows if text), default=0)
    yield from (f"  {name:<{margin}}  {text}" for name, text in rows if text)
    yield from (f"  ! {line}" for line in (run.reason or "").splitlines())
    yield from (f"  model  {describe_registration(model)}" for model in details.registrations())
    for name, place in details.outputs().items():
        yield f"  output {name}  {show_place(place)}"
    if not run.steps:
        yield "  its steps are unknown"
    shown = {name: step for name, step in run.steps.items() if name.rpartition(".")[0] not in sweeps}
    depths = _find_depths(shown)
    width = max((len(name) + 2 * depths[name] for name in shown), default=0)
    speeds = speed_view.compare_speeds(details.speeds())
    for name, step in shown.items():
        yield ""
        yield from _step(details, step, speeds.get(name), depths[name], width)
        if name in sweeps:
            yield from _render_sweep(sweeps[name], "  " * depths[name] + "    ")


def _step(
    details: RunDetails, step: StepRecord, speed: ComparedSpeed | None, depth: int, width: int
) -> Iterator[str]:
    margin = "  " * depth
    notes = step.notes + ([f"<- {', '.join(step.needs)}"] if step.needs else [])
    yield format_step(margin + step.name, width, step.state, step.seconds, ", ".join(notes))
    margin += "    "
    metrics = {
        name: number for name, number in details.metrics(step).items() if speed is None or name != SPEED
    }
    for name, number in itertools.islice(metrics.items(), MOST_METRICS):
        yield f"{margin}{name}: {number:.6g}"
    if len(metrics) > MOST_METRICS:
        yield f"{margin}… and {plural(len(metrics) - MOST_METRICS, 'more metric')}: see `--json`"
    if speed is not None:
        yield from (f"{margin}{line}" for line in speed_view.render_speed(speed))
    predicted = prediction.INPUTS if speed is not None and speed.prediction is not None else ()
    yield from (f"{margin}{line}" for line in _list_parameters(step, predicted))
    for name, place in details.step_outputs(step).items():
        yield f"{margin}-> {name}  {show_place(place)}"
    if step.reason:
        yield f"{margin}! {step.reason}"
        yield from (f"{margin}| {line}" for line in details.last_lines(step, LAST_LINES))


def _list_parameters(step: StepRecord, said: Collection[str]) -> Iterator[str]:
    """The parameters that tell about the step: those of the component's default are counted."""
    listed = {name: value for name, value in step.parameters.items() if name not in said}
    chosen = {name: value for name, value in listed.items() if name not in step.defaults}
    yield from (f"{name} = {flatten(shorten(value, LONGEST_VALUE))}" for name, value in chosen.items())
    if more := len(listed) - len(chosen):
        yield f"{plural(more, 'parameter')} with the default of the component: see `--json`"


def _find_depths(steps: Mapping[str, StepRecord]) -> dict[str, int]:
    """Count how many steps precede each step, up to :data:`DEEPEST`.

    Steps in a cycle, which only a damaged record contains, get the maximum.
    """
    depths = dict.fromkeys(steps, 0)
    for _ in range(DEEPEST):
        before = dict(depths)
        for name, step in steps.items():
            depths[name] = min(
                DEEPEST, max((before[need] + 1 for need in step.needs if need in before), default=0)
            )
        if depths == before:
            break
    return depths


def document(run: RunRecord, details: RunDetails) -> dict[str, Any]:
    """The run as plain data."""
    speeds = speed_view.compare_speeds(details.speeds())
    return {
        "id": run.id,
        "state": run.state,
        "pipeline": run.reference or run.pipeline,
        "started": run.started.isoformat() if run.started else None,
        "seconds": round(run.seconds, 3),
        "failure": run.reason,
        **details.links(),
        "outputs": dict(details.outputs()),
        "models": [common.describe(model, "name", "version", "reason") for model in details.registrations()],
        "resumed": run.resumed,
        "damaged_lines": run.damaged,
        "steps": {name: _describe_step(details, step, speeds.get(name)) for name, step in run.steps.items()},
    }


def _describe_step(details: RunDetails, step: StepRecord, speed: ComparedSpeed | None) -> dict[str, Any]:
    return {
        "state": step.state,
        "seconds": round(step.seconds, 3),
        "started": step.started.isoformat() if step.started else None,
        "attempts": step.attempts,
        "needs": list(step.needs),
        "from_run": step.source,
        "processes": list(step.processes),
        "parameters": dict(step.parameters),
        "metrics": dict(details.metrics(step)),
        "speed": None if speed is None else speed_view.describe_speed(speed),
        "outputs": dict(details.step_outputs(step)),
        "failure": step.reason,
    }


def _render_sweep(sweep: SweepFacts, margin: str) -> Iterator[str]:
    """The lines of the table."""
    trials = rank_trials(sweep)
    names = list(dict.fromkeys(name for trial in trials for name in trial.values))
    rows = [
        (
            "*" if trial.name == sweep.best else "",
            trial.name.rpartition(".")[2],
            trial.state,
            "" if trial.value is None else show_number(trial.value),
            *(shorten(trial.values.get(name, ""), LONGEST_TRIAL_VALUE) for name in names),
        )
        for trial in trials[:MAX_TRIALS]
    ]
    headings = ("", "trial", "state", sweep.metric or "value", *names)
    right = frozenset(range(3, len(headings)))
    yield from (f"{margin}{line}".rstrip() for line in common.format_table(headings, rows, right=right))
    if len(trials) > MAX_TRIALS:
        yield f"{margin}and {plural(len(trials) - MAX_TRIALS, 'more trial')}"
    if sweep.best:
        yield f"{margin}* the best of {plural(len(trials), 'trial')}: {sweep.goal or 'best'} {sweep.metric}"


def _describe_sweep(sweep: SweepFacts) -> dict[str, Any]:
    """The sweep as plain data."""
    return {
        **common.describe(sweep, "metric", "goal", "best"),
        "trials": [
            {**common.describe(trial, "name", "state", "value"), "parameters": dict(trial.values)}
            for trial in sweep.trials
        ],
    }

"""`worldsize show`: shows one run as indented text, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worldsize.base.wording import plural
from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.running.record.history import RunRecord, StepRecord

DEEPEST = 8  # levels of indentation: a chain of a thousand steps must fit the page
LONGEST_VALUE = 80
LAST_LINES = 5
EPILOG = """\b
Examples:
  worldsize show last            the graph of the newest run
  worldsize show 20260102-03     a run by the beginning of its id
  worldsize show last --json     everything, for a program

A step is indented below the steps that it needs, which follow `<-`.
"""


@click.command(epilog=EPILOG)
@click.argument("run", metavar="RUN")
@common.runs_dir
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(run: str, home: Path, *, as_json: bool) -> None:
    """Show a run: its steps, their states, times, parameters, metrics and outputs."""
    from worldsize.running.record.history import load_run

    record = load_run(common.find_run(home, run))
    if as_json:
        click.echo(json.dumps(document(record), indent=2))
    else:
        common.say("\n".join(render(record)))


def render(run: RunRecord) -> Iterator[str]:
    """The run as lines."""
    from worldsize.running.model.folder import show_path
    from worldsize.running.model.results import list_outputs
    from worldsize.running.show.views import format_duration

    yield f"run {run.id} {run.state}" + (f" after {format_duration(run.seconds)}" if run.started else "")
    rows = [
        ("pipeline", show_path(run.pipeline)),
        ("started", common.format_time(run.started)),
        ("folder", show_path(run.root)),
    ]
    rows.append(("resumed", {0: "", 1: "once"}.get(run.resumed, f"{run.resumed} times")))
    rows.append(("note", _describe_damage(run.damaged)))
    yield from (f"  {name:<8}  {text}" for name, text in rows if text)
    for name, path in list_outputs(run.root).items():
        yield f"  output {name}  {show_path(path)}"
    if not run.steps:
        yield "  its steps are unknown"
    depths = levels(run.steps)
    width = max((len(name) + 2 * depths[name] for name in run.steps), default=0)
    for name, step in run.steps.items():
        yield ""
        yield from _step(run, step, depths[name], width)


def _describe_damage(count: int) -> str:
    lines = plural(count, "line")
    return (
        f"of its event log {lines} cannot be read and {'is' if count == 1 else 'are'} left out"
        if count
        else ""
    )


def _step(run: RunRecord, step: StepRecord, depth: int, width: int) -> Iterator[str]:
    from worldsize.running.model.folder import show_path
    from worldsize.running.show.views import format_duration

    margin = "  " * depth
    took = format_duration(step.seconds) if step.seconds else ""
    behind = [f"from run {step.source}"] if step.source else []
    behind += [f"{step.attempts} attempts"] if step.attempts > 1 else []
    behind += [f"{len(step.processes)} processes"] if len(step.processes) > 1 else []
    behind += [f"<- {', '.join(step.needs)}"] if step.needs else []
    state = "not started" if step.state == "waiting" else step.state
    yield f"{(margin + step.name):<{width}}  {state:<11}  {took:>9}  {', '.join(behind)}".rstrip()
    margin += "    "
    for name, value in step.parameters.items():
        yield f"{margin}{name} = {_shorten_value(value)}"
    for name, number in _metrics(run, step).items():
        yield f"{margin}{name}: {number:.6g}"
    for name, path in _outputs(run, step).items():
        yield f"{margin}-> {name}  {show_path(path)}"
    if step.reason:
        yield f"{margin}! {step.reason}"
        yield from (f"{margin}| {line}" for line in _last_lines(run, step))


def _shorten_value(value: str) -> str:
    from worldsize.diagnostics.snippet import flatten

    text = flatten(value.replace("\n", " "))
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def levels(steps: Mapping[str, StepRecord]) -> dict[str, int]:
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


def _outputs(run: RunRecord, step: StepRecord) -> dict[str, Path]:
    """Outputs that exist and are not empty, by name."""
    folder = run.root / "steps" / step.name / "outputs"
    try:
        listed = sorted(folder.iterdir())
        return {
            path.name: path.resolve()
            for path in listed
            if path.exists() and (not path.is_dir() or next(path.iterdir(), None) is not None)
        }
    except (OSError, ValueError):  # the step's name may contain any character
        return {}


def _metrics(run: RunRecord, step: StepRecord) -> dict[str, float]:
    from worldsize.running.model.results import StepResult
    from worldsize.running.record.reports import read_metrics

    root = run.root / "steps" / step.name
    return read_metrics({step.name: StepResult(step.name, "succeeded", 0.0, root, _outputs(run, step))})


def _last_lines(run: RunRecord, step: StepRecord) -> list[str]:
    from worldsize.diagnostics.snippet import flatten
    from worldsize.running.launch.logs import last_lines

    if step.failed_process is None:
        return []
    log = run.root / "steps" / step.name / "logs" / f"{step.failed_process}.log"
    lines = last_lines(log, LAST_LINES) if step.last_lines is None else step.last_lines[-LAST_LINES:]
    return [flatten(line.expandtabs()) for line in lines]


def document(run: RunRecord) -> dict[str, Any]:
    """The run as plain data."""
    from worldsize.running.model.results import list_outputs

    return {
        "id": run.id,
        "state": run.state,
        "pipeline": run.pipeline,
        "started": run.started.isoformat() if run.started else None,
        "seconds": round(run.seconds, 3),
        "folder": str(run.root.absolute()),
        "outputs": {name: str(path.absolute()) for name, path in list_outputs(run.root).items()},
        "resumed": run.resumed,
        "damaged_lines": run.damaged,
        "steps": {name: _describe_step(run, step) for name, step in run.steps.items()},
    }


def _describe_step(run: RunRecord, step: StepRecord) -> dict[str, Any]:
    return {
        "state": step.state,
        "seconds": round(step.seconds, 3),
        "started": step.started.isoformat() if step.started else None,
        "attempts": step.attempts,
        "needs": list(step.needs),
        "from_run": step.source,
        "processes": list(step.processes),
        "parameters": dict(step.parameters),
        "metrics": _metrics(run, step),
        "outputs": {name: str(path) for name, path in _outputs(run, step).items()},
        "failure": step.reason,
    }

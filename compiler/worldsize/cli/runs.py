"""`worldsize runs`: lists the runs of a folder, the newest last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.running.record.history import RunRecord

EPILOG = """\b
Examples:
  worldsize runs                 the last twenty
  worldsize runs --all --json    every one, for a program

\b
state:
  running      its processes are alive
  died         it stopped without recording its end: continue it with `worldsize resume`
  succeeded, failed, interrupted
"""


@click.command(epilog=EPILOG)
@common.runs_dir
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Only the newest runs.",
)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(home: Path, last: int, *, everything: bool, as_json: bool) -> None:
    """List runs: state, steps done, start and duration."""
    from worldsize.running.record.history import list_runs, load_run  # see above

    folders = list_runs(home)
    shown = [load_run(root) for root in (folders if everything else folders[-last:])]
    if as_json:
        click.echo(json.dumps([_document(run) for run in shown], indent=2))
        return
    if not shown:
        click.echo(f"no run in `{home}` yet")
        return
    if len(shown) < len(folders):
        click.echo(f"the last {len(shown)} of {len(folders)} runs")
    headings = ("run", "state", "steps", "started", "took", "pipeline")
    common.say(
        "\n".join(common.format_table(headings, [_row(run) for run in shown], right=frozenset({2, 4})))
    )


def _row(run: RunRecord) -> tuple[str, ...]:
    from worldsize.running.model.folder import show_path
    from worldsize.running.show.views import format_duration

    took = format_duration(run.seconds) if run.started is not None else ""
    steps = f"{run.done}/{len(run.steps)}"
    return run.id, run.state, steps, common.format_time(run.started), took, show_path(run.pipeline)


def _document(run: RunRecord) -> dict[str, Any]:
    return {
        "id": run.id,
        "state": run.state,
        "pipeline": run.pipeline,
        "steps": len(run.steps),
        "steps_done": run.done,
        "started": run.started.isoformat() if run.started else None,
        "seconds": round(run.seconds, 3),
        "folder": str(run.root.absolute()),
    }

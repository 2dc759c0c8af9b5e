"""`worldsize runs`: lists the runs of a folder, the newest last."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worldsize.cli import common, speed_view, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice

if TYPE_CHECKING:
    from worldsize.resolving.measured_case import Speed
    from worldsize.running.record.history import RunRecord

EPILOG = """\b
Examples:
  worldsize runs                 the last twenty
  worldsize runs --all --json    every one, for a program
  worldsize runs --azure         the jobs of a workspace in Azure

\b
state:
  running      its processes are alive
  died         it stopped without recording its end: continue it with `worldsize resume`
  succeeded, failed, interrupted
  queued, running, succeeded, failed, canceled    of a job in Azure
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
@workspace_options.of_azure
def command(home: Path, azure: WorkspaceChoice | None, last: int, *, everything: bool, as_json: bool) -> None:
    """List runs: state, steps done, start and duration."""
    count = None if everything else last
    if azure is not None:
        from worldsize.remote import jobs  # only for a workspace in Azure

        with azure.connect() as rest:
            listed = jobs.list_jobs(rest, count)
            speeds = [job.predicted_speeds() for job in listed]
            _show([job.record for job in listed], [job.links() for job in listed], speeds, as_json=as_json)
            if not listed and not as_json:
                common.say(f"no job in {rest.names.shown} yet")
        return
    from worldsize.running.record.details import LocalDetails  # see above
    from worldsize.running.record.history import list_runs, load_run

    folders = list_runs(home)
    shown = [load_run(root) for root in (folders if count is None else folders[-count:])]
    if not shown and not as_json:
        click.echo(f"no run in `{home}` yet")
        return
    if len(shown) < len(folders) and not as_json:
        click.echo(f"the last {len(shown)} of {len(folders)} runs")
    details = [LocalDetails(run) for run in shown]
    _show(shown, [each.links() for each in details], [each.speeds() for each in details], as_json=as_json)


def _show(
    runs: Sequence[RunRecord],
    links: Sequence[Mapping[str, str]],
    speeds: Sequence[Mapping[str, Speed]],
    *,
    as_json: bool,
) -> None:
    compared = [speed_view.compare_speeds(each) for each in speeds]
    if as_json:
        documents = [
            {**_document(run, own), "speeds": speed_view.describe_speeds(each)}
            for run, own, each in zip(runs, links, compared, strict=True)
        ]
        click.echo(json.dumps(documents, indent=2))
    elif runs:
        headings = ("run", "state", "steps", "started", "took", "pipeline")
        titles, rows = speed_view.add_columns(headings, [_row(run) for run in runs], compared)
        common.say("\n".join(common.format_table(titles, rows, right=frozenset({2, 4}))))


def _row(run: RunRecord) -> tuple[str, ...]:
    from worldsize.running.model.folder import show_path
    from worldsize.running.show.views import format_duration

    took = format_duration(run.seconds) if run.started is not None else ""
    steps = f"{run.done}/{len(run.steps)}"
    return run.id, run.state, steps, common.format_time(run.started), took, show_path(run.pipeline)


def _document(run: RunRecord, links: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": run.id,
        "state": run.state,
        "pipeline": run.pipeline,
        "steps": len(run.steps),
        "steps_done": run.done,
        "started": run.started.isoformat() if run.started else None,
        "seconds": round(run.seconds, 3),
        **links,
    }

"""`worldsize runs`: lists the runs of a folder, the newest last."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from worldsize.base.wording import format_duration
from worldsize.cli import common, runs_filter, speed_view, workspace_options
from worldsize.cli.runs_filter import Filter
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.remote import jobs
from worldsize.reporting.curves import read_run_metrics
from worldsize.running.model.folder import show_path
from worldsize.running.record.details import LocalDetails
from worldsize.running.record.history import list_runs, load_runs

if TYPE_CHECKING:
    from worldsize.planning.estimates.calibration import Speed
    from worldsize.remote.rest import Rest
    from worldsize.running.record.history import RunRecord

EPILOG = """\b
Examples:
  worldsize runs                 the last twenty
  worldsize runs --all --json    every one, for a program
  worldsize runs --where 'accuracy>0.9' --sort accuracy    the best last
  worldsize runs --state failed --since 2d --pipeline digits
  worldsize runs --azure         the jobs of a workspace in Azure, with the same filters

\b
state:
  running      its processes are alive
  died         it stopped without recording its end: continue it with `worldsize resume`
  succeeded, failed, interrupted
  queued, running, succeeded, failed, canceled    of a job in Azure
"""


class _Listed(NamedTuple):
    """A run of the list; ``metrics`` are known where the list was filtered by them."""

    run: RunRecord
    links: Mapping[str, str]
    speeds: Mapping[str, Speed]
    metrics: Mapping[str, float] = MappingProxyType({})


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
@common.json_option
@runs_filter.add_options
@workspace_options.of_azure
def command(
    home: Path,
    azure: WorkspaceChoice | None,
    last: int,
    *,
    everything: bool,
    as_json: bool,
    wanted: Filter,
) -> None:
    """List runs: state, steps done, start and duration."""
    count = None if everything else last
    if azure is not None:
        with azure.connect() as rest:
            _list_jobs(rest, count, wanted, as_json=as_json)
        return

    folders = list_runs(home)
    if wanted.asks:
        found = wanted.choose(load_runs(folders), read_run_metrics)
        total, found = len(found), found if count is None else found[-count:]
    else:
        total = len(folders)
        found = [(each, {}) for each in load_runs(folders if count is None else folders[-count:])]
    if not found and not as_json:
        click.echo("no run matches" if folders else f"no run in `{home}` yet")
        return
    if len(found) < total and not as_json:
        click.echo(f"the last {len(found)} of {total} runs")
    listing = [
        _Listed(run, details.links(), details.speeds(), metrics)
        for run, metrics in found
        for details in (LocalDetails(run),)
    ]
    _show(listing, as_json=as_json, columns=wanted.columns)


def _list_jobs(rest: Rest, count: int | None, wanted: Filter, *, as_json: bool) -> None:
    """List the jobs of a workspace; a filter reads all of them, and their metrics only if it asks for any."""
    found = {job.name: job for job in jobs.list_jobs(rest, None if wanted.asks else count)}
    chosen = wanted.choose((job.record for job in found.values()), lambda run: found[run.id].run_metrics())
    shown = chosen if count is None else chosen[-count:]
    if not shown and not as_json:
        common.say("no job matches" if found else f"no job in {rest.names.shown} yet")
        return
    if len(shown) < len(chosen) and not as_json:
        common.say(f"the last {len(shown)} of {len(chosen)} jobs")
    listed = [(found[run.id], run, metrics) for run, metrics in shown]
    listing = [_Listed(run, job.links(), job.predicted_speeds(), metrics) for job, run, metrics in listed]
    _show(listing, as_json=as_json, columns=wanted.columns)


def _show(listed: Sequence[_Listed], *, as_json: bool, columns: Sequence[str] = ()) -> None:
    """Print the runs; ``columns`` are the metrics to show."""
    compared = [speed_view.compare_speeds(each.speeds) for each in listed]
    if as_json:
        documents = [_document(each, columns) for each in listed]
        for document, speeds in zip(documents, compared, strict=True):
            document["speeds"] = speed_view.describe_speeds(speeds)
        click.echo(json.dumps(documents, indent=2))
    elif listed:
        headings = ("run", "state", "steps", "started", "took", *columns, "pipeline")
        titles, rows = speed_view.add_columns(headings, [_row(each, columns) for each in listed], compared)
        right = frozenset({2, 4, *range(5, 5 + len(columns))})
        common.say("\n".join(common.format_table(titles, rows, right=right)))


def _row(listed: _Listed, columns: Sequence[str]) -> tuple[str, ...]:
    run, metrics = listed.run, listed.metrics
    took = format_duration(run.seconds) if run.started is not None else ""
    steps = f"{run.done}/{len(run.steps)}"
    where = show_path(run.pipeline) if run.label == run.pipeline else " ".join(run.label.split())
    cells = (f"{metrics[name]:.6g}" if name in metrics else "" for name in columns)
    return run.id, run.state, steps, common.format_time(run.started), took, *cells, where


def _document(listed: _Listed, columns: Sequence[str]) -> dict[str, Any]:
    run = listed.run
    return {
        "id": run.id,
        "state": run.state,
        "pipeline": run.reference or run.pipeline,
        "steps": len(run.steps),
        "steps_done": run.done,
        "started": run.started.isoformat() if run.started else None,
        "seconds": round(run.seconds, 3),
        **listed.links,
        **({"metrics": dict(listed.metrics)} if columns else {}),
    }

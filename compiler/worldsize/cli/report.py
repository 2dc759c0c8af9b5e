"""`worldsize report`: writes one run as a self-contained page."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem
from msgspec.structs import replace

from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import describe_os_error, quoted_list
from worldsize.cli import common, run_folders, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.remote import jobs
from worldsize.reporting.charts import can_draw
from worldsize.reporting.firings import render_firings
from worldsize.reporting.model import RunFacts
from worldsize.reporting.page import FILE, NO_PICTURES, render_page, write_page
from worldsize.reporting.read_run import read_job, read_run
from worldsize.retraining.history import list_pipelines, read_history
from worldsize.running.model.folder import show_path
from worldsize.running.show.firings import TRAINED

EPILOG = """\b
Examples:
  worldsize report                       the newest run, into its folder
  worldsize report 20260102-03 -o a.html a run by the beginning of its id, into a file
  worldsize report JOB --azure           a job in a workspace in Azure, into JOB.html
  worldsize report --retrain sales       all looks of `worldsize retrain` at the pipeline `sales`

The page is one file: it needs no network and no other file, and can be sent or printed. `worldsize run`
writes the page of each run as report.html into the run's folder, unless it is given --no-report.
"""


def _complete_pipelines(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The pipelines of the home that were looked at."""
    names = list_pipelines(Path(ctx.params.get("home") or ".worldsize"))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(epilog=EPILOG)
@click.argument("run", metavar="[RUN]", default=None, shell_complete=run_folders.complete_runs)
@click.option(
    "--retrain",
    "pipeline",
    metavar="NAME",
    shell_complete=_complete_pipelines,
    help="A retrained pipeline in place of a run: its models, data and decisions over time.",
)
@run_folders.runs_dir
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file; by default `report.html` in the folder of the run or pipeline.",
)
@common.json_option
@workspace_options.of_azure
def command(
    run: str | None,
    pipeline: str | None,
    home: Path,
    azure: WorkspaceChoice | None,
    *,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write a run as one page: graph, timeline, curves, plan against actual, metrics, environment."""
    if pipeline is not None:
        if run is not None or azure is not None:
            raise click.UsageError("--retrain names a pipeline of this machine, in place of a run")
        _report_pipeline(home, pipeline, output, as_json=as_json)
        return
    run = run or "last"
    if azure is not None:
        with azure.connect() as rest:
            facts = read_job(jobs.read_job(rest, run))
        target = output or Path(f"{facts.record.id}.html")
    else:
        root = run_folders.find_run(home, run)
        if output is None and root.is_symlink():
            common.refuse(f"the run's folder `{root}` is a link", "name the file: `-o report.html`")
        facts, target = read_run(root), output or root / FILE
    _write(render_page(facts), target, follow=output is not None)
    _tell(facts, target, as_json=as_json)


def _report_pipeline(home: Path, name: str, output: Path | None, *, as_json: bool) -> None:
    """Write the looks at a pipeline as one page, into its folder or into a file."""
    names = list_pipelines(home)
    if name not in names:
        help_ = did_you_mean(name, names) or (
            f"it has {quoted_list(names)}" if names else "`worldsize retrain SPEC` looks at one"
        )
        common.refuse(f"`{home}` has no retrained pipeline `{name}`", help_)
    retrained = read_history(home, name)
    target = output or home / "retrain" / name / FILE
    runs = {firing.run: home.resolve() / "runs" / firing.run for firing in retrained.firings if firing.run}
    links = {}
    for run, root in runs.items():
        shown = root / FILE if (root / FILE).is_file() else root
        if shown.exists():
            links[run] = quote(os.path.relpath(shown, target.parent.resolve()))
    page = render_firings(replace(retrained, links=links), datetime.now(timezone.utc))
    _write(page, target, follow=output is not None)
    if not as_json:
        common.say(show_path(target.absolute()))
        return
    trainings = sum(firing.action in TRAINED for firing in retrained.firings)
    counts = {"looks": len(retrained.firings), "trainings": trainings, "champion": retrained.champion}
    click.echo(json.dumps({"retrain": name, **counts, "report": str(target.absolute())}))


def _write(page: str, target: Path, *, follow: bool) -> None:
    if target.is_dir():
        common.refuse(f"`{target}` is a folder", f"name a file: `-o {target / 'report.html'}`")
    try:
        write_page(page, target, follow=follow)
    except OSError as error:
        help_ = "name another file with `-o`"
        common.refuse(f"`{target}` cannot be written: {describe_os_error(error)}", help_)


def _tell(facts: RunFacts, target: Path, *, as_json: bool) -> None:
    record = facts.record
    if as_json:
        click.echo(json.dumps({"run": record.id, "state": record.state, "report": str(target.absolute())}))
        return
    running = f", running, as of {facts.read_at.astimezone():%H:%M:%S}" if record.state == "running" else ""
    common.say(f"{show_path(target.absolute())}{running}")
    if not can_draw() and any(step.curves for step in facts.steps.values()):
        common.say(NO_PICTURES, err=True)

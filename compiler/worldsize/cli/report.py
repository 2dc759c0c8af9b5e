"""`worldsize report`: writes one run as a self-contained page."""

from __future__ import annotations

import json
from pathlib import Path

import click

from worldsize.base.wording import describe_os_error
from worldsize.cli import common, run_folders, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.remote import jobs
from worldsize.reporting.charts import can_draw
from worldsize.reporting.model import RunFacts
from worldsize.reporting.page import FILE, NO_PICTURES, render_page, write_page
from worldsize.reporting.read_run import read_job, read_run
from worldsize.running.model.folder import show_path

EPILOG = """\b
Examples:
  worldsize report                       the newest run, into its folder
  worldsize report 20260102-03 -o a.html a run by the beginning of its id, into a file
  worldsize report JOB --azure           a job in a workspace in Azure, into JOB.html

The page is one file: it needs no network and no other file, and can be sent or printed. `worldsize run`
writes the page of each run as report.html into the run's folder, unless it is given --no-report.
"""


@click.command(epilog=EPILOG)
@click.argument("run", metavar="[RUN]", default="last", shell_complete=run_folders.complete_runs)
@run_folders.runs_dir
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file; by default `report.html` in the run's folder.",
)
@common.json_option
@workspace_options.of_azure
def command(
    run: str, home: Path, azure: WorkspaceChoice | None, *, output: Path | None, as_json: bool
) -> None:
    """Write a run as one page: graph, timeline, curves, plan against actual, metrics, environment."""
    if azure is not None:
        with azure.connect() as rest:
            facts = read_job(jobs.read_job(rest, run))
        target = output or Path(f"{facts.record.id}.html")
    else:
        root = run_folders.find_run(home, run)
        if output is None and root.is_symlink():
            common.refuse(f"the run's folder `{root}` is a link", "name the file: `-o report.html`")
        facts, target = read_run(root), output or root / FILE
    _write(facts, target, follow=output is not None)
    _tell(facts, target, as_json=as_json)


def _write(facts: RunFacts, target: Path, *, follow: bool) -> None:
    if target.is_dir():
        common.refuse(f"`{target}` is a folder", f"name a file: `-o {target / 'report.html'}`")
    try:
        write_page(render_page(facts), target, follow=follow)
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

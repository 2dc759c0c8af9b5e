"""`worldsize submit`: checks, compiles and submits to a workspace in Azure, and follows the job."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from worldsize.cli import common, speed_view, workspace_options
from worldsize.cli.run import choose_view, exit_on_refusal
from worldsize.cli.show import document
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.documents.diagnostics.text import is_terminal
from worldsize.remote import watch
from worldsize.remote.jobs import RemoteJob, find_studio
from worldsize.remote.logs import run_state
from worldsize.remote.submit import FollowInterruptError, SubmitOptions, Submitted, preview, submit
from worldsize.remote.targets import Target

EPILOG = """\b
Examples:
  worldsize submit pipelines/digits_ddp.yml          a spec: checked, compiled, submitted, followed
  worldsize submit build/pipeline.yml --no-wait      a pipeline or job as it is
  worldsize submit pipelines/digits.py:digits        a pipeline in Python: runs the file's code
  worldsize submit SPEC --create-compute             create the clusters that the workspace lacks
  worldsize submit SPEC --schedule                   the schedule of a spec, or a schedule file
  worldsize submit SPEC --dry-run                    print the bodies, and send nothing
  worldsize submit SPEC --json                       the job at its end as `show --azure --json` has it

\b
The workspace is that of --subscription, --resource-group and --workspace, of AZURE_SUBSCRIPTION_ID,
AZURE_RESOURCE_GROUP and AZUREML_WORKSPACE_NAME (or AZUREML_ARM_…, as in jobs) if all three are set,
or of `config.json` or `.azureml/config.json` in this folder or above it. The credentials are those
that azure-identity finds: `az login`, a service principal's variables, a managed identity.

\b
Exit status: 0 the job succeeded, or was submitted with --no-wait; 1 it failed or was canceled, or
nothing was submitted; 2 usage, 3 an internal error of worldsize, 130 Ctrl-C.
Ctrl-C ends the view, not the job.
"""


@click.command(epilog=EPILOG)
@click.argument("spec", type=common.FilePath(), metavar="FILE")
@common.set_option
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep what a spec compiles to in this folder.",
)
@click.option("-n", "--name", metavar="NAME", help="The name of the job, or of the schedule.")
@click.option("--experiment", metavar="NAME", help="The experiment, instead of that in the file.")
@click.option("--schedule", is_flag=True, help="Create or replace the schedule instead of starting a job.")
@click.option("--create-compute", is_flag=True, help="Create the clusters that the workspace lacks.")
@click.option(
    "--no-wait", "wait", is_flag=True, flag_value=False, default=True, help="Do not follow the job."
)
@click.option(
    "--download",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Download outputs and logs into this folder after the end.",
)
@click.option("--cancel-on-interrupt", is_flag=True, help="Ctrl-C also cancels the job.")
@click.option("--dry-run", is_flag=True, help="Print the REST bodies as JSON, and send nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print warnings and the result only.")
@common.json_option
@workspace_options.required
def command(
    azure: WorkspaceChoice,
    *,
    spec: Path,
    settings: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """Submit a spec, a pipeline, a job or a schedule to a workspace in Azure, and follow it."""
    options = SubmitOptions(*azure, common.parse_settings(settings), **others)
    if options.download is not None and (not options.wait or options.schedule or dry_run):
        raise click.UsageError("`--download` needs a job that is followed to its end")

    show = partial(_show_stage, quiet=quiet, as_json=as_json)
    with exit_on_refusal():
        if dry_run:
            click.echo(json.dumps(preview(spec, options, show=show), indent=2, ensure_ascii=False))
            return
        try:
            submitted = submit(spec, options, view=choose_view(quiet=quiet or as_json), show=show)
        except FollowInterruptError as interrupt:
            _say_interrupted(interrupt)
            raise SystemExit(130) from None
    if "trigger" in submitted.properties:
        show_schedule(submitted, as_json=as_json)
    elif submitted.job is None:
        _show_submitted(submitted, as_json=as_json)
    else:
        if options.download is not None:
            common.say(f"downloaded to {options.download}", err=as_json)
        raise SystemExit(0 if submitted.job.record.state == "succeeded" else 1)


def _show_stage(stage: Target | RemoteJob | str, *, quiet: bool, as_json: bool) -> None:
    if isinstance(stage, RemoteJob):
        if as_json:
            click.echo(json.dumps(document(stage.record, stage), indent=2))
        else:
            _show_result(stage, quiet=quiet)
    elif not quiet and isinstance(stage, Target):
        warnings = [warning for warning in stage.warnings if warning.severity != "info"]
        if warnings:
            common.show_findings(warnings, stage.sources)
    elif not quiet:
        common.say(str(stage), err=as_json)


def show_schedule(submitted: Submitted, *, as_json: bool) -> None:
    """Say that a schedule is set, and when it fires next."""
    from worldsize.serving.schedules.records import find_next_fire  # only a schedule needs it

    trigger, name = submitted.properties["trigger"], submitted.name
    coming = find_next_fire(trigger)
    if as_json:
        following = None if coming is None else coming.isoformat()
        workspace = submitted.workspace.id
        click.echo(json.dumps({"schedule": name, "workspace": workspace, "next": following}, indent=2))
        return
    common.say(f"schedule {name} is set in {submitted.workspace.shown}")
    if not trigger.get("startTime"):
        common.say("  without a start time, a new schedule starts its first job at once")
    if coming is not None:
        common.say(f"  next  {coming:%a %Y-%m-%d %H:%M} {trigger.get('timeZone') or 'UTC'}")


def _show_submitted(submitted: Submitted, *, as_json: bool) -> None:
    properties, name = submitted.properties, submitted.name
    studio = find_studio(properties)
    if as_json:
        job = {"id": name, "state": run_state(str(properties.get("status"))), "studio": studio}
        click.echo(json.dumps(job, indent=2))
        return
    common.say(f"job {name} is submitted" + (f"\n  studio  {studio}" if studio else ""))


def _say_interrupted(interrupt: FollowInterruptError) -> None:
    name, names = interrupt.name, interrupt.workspace
    if interrupt.canceled:
        click.echo(f"\njob {name} is being canceled", err=True)
        return
    where = f"--resource-group {names.group} --workspace-name {names.workspace}"
    click.echo(
        f"\njob {name} goes on in the workspace\n"
        f"  look at it   worldsize show {name} --azure\n"
        f"  cancel it    az ml job cancel --name {name} {where}",
        err=True,
    )


def _show_result(job: RemoteJob, *, quiet: bool) -> None:
    """How the job ended, and the measured speed of each training step beside the predicted one."""
    succeeded = job.record.state == "succeeded"
    text = watch.render_result(job, steps=quiet or not is_terminal(sys.stdout))
    common.say(text, err=not succeeded)
    if not succeeded:
        return
    for name, compared in speed_view.compare_speeds(job.predicted_speeds()).items():
        for line in speed_view.render_speed(compared):
            common.say(f"  {name}  {line}")

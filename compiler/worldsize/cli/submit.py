"""`worldsize submit`: checks, compiles and submits to a workspace in Azure, and follows the job."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import click

from worldsize.base.wording import plural
from worldsize.cli import common, speed_view, workspace_options
from worldsize.cli.run import choose_view, exit_on_refusal
from worldsize.cli.show import document
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.documents.diagnostics.text import is_terminal
from worldsize.remote import client, jobs, recording, targets, watch
from worldsize.remote.errors import RemoteError, explain_errors
from worldsize.remote.jobs import find_studio
from worldsize.remote.names import WorkspaceNames
from worldsize.remote.rest import Rest
from worldsize.remote.states import run_state
from worldsize.spec import cron

if TYPE_CHECKING:
    from worldsize.remote.jobs import RemoteJob
    from worldsize.remote.targets import Target

MOST_FILES = 200  # of one folder that a dry run names
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


@dataclass(frozen=True, slots=True)
class Request:
    """What the options say."""

    spec: Path
    output: Path | None
    settings: tuple[str, ...]
    name: str | None
    experiment: str | None
    schedule: bool
    create_compute: bool
    cancel_on_interrupt: bool
    wait: bool
    download: Path | None
    quiet: bool
    as_json: bool


@click.command(epilog=EPILOG)
@click.argument("spec", type=common.PipelinePath(), metavar="FILE")
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
def command(azure: WorkspaceChoice, *, dry_run: bool, **options: Any) -> None:
    """Submit a spec, a pipeline, a job or a schedule to a workspace in Azure, and follow it."""
    request = Request(**options)
    if request.download is not None and (not request.wait or request.schedule or dry_run):
        raise click.UsageError("`--download` needs a job that is followed to its end")

    with (
        tempfile.TemporaryDirectory(prefix="worldsize-") as temporary,
        workspace_options.exit_on_remote_error(),
        exit_on_refusal(),
    ):
        out = request.output or Path(temporary) / "pipeline"
        settings = common.parse_settings(request.settings)
        names = _find_names(azure, dry_run=dry_run)
        known: dict[str, Any] = {} if dry_run else {"fill": targets.make_filler(names)}
        target = targets.load_target(request.spec, out, settings, schedule=request.schedule, **known)
        warnings = [each for each in target.warnings if each.severity != "info"]
        if warnings and not request.quiet:
            common.show_findings(warnings, target.sources)
        if dry_run:
            _print_bodies(names, target, request)
        else:
            _submit(names, target, request)


def _find_names(azure: WorkspaceChoice, *, dry_run: bool) -> WorkspaceNames:
    """The workspace; a dry run needs none, and shows what is not given in angle brackets."""
    try:
        return azure.find()
    except RemoteError:
        if not dry_run:
            raise
    return WorkspaceNames(
        azure.subscription or "<subscription>",
        azure.group or "<resource group>",
        azure.workspace or "<workspace>",
    )


def _print_bodies(names: WorkspaceNames, target: Target, request: Request) -> None:
    with explain_errors(names.shown), recording.recording() as recorder:
        ml_client = client.make_client(names, recording.StaticCredential())
        send = client.submit_schedule if target.is_schedule else client.submit_job
        send(ml_client, target, request.name, request.experiment)
    document = {
        "workspace": names.id,
        "computes": target.compute_names,
        "uploads": _fold_uploads(recorder.uploads),
        "requests": recorder.requests,
    }
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _fold_uploads(paths: Sequence[str]) -> list[str]:
    """The files that are uploaded; of a folder with many, such as one of data, how many."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault("/".join(path.split("/")[:2]), []).append(path)
    folded = []
    for folder, files in folders.items():
        folded += files if len(files) <= MOST_FILES else [f"{folder}/ ({plural(len(files), 'file')})"]
    return folded


def _submit(names: WorkspaceNames, target: Target, request: Request) -> None:
    with explain_errors(names.shown):
        rest = Rest(names)
        targets.check_registered(rest, target)
        missing = client.find_missing(rest, target.compute_names)
        client.require_creatable(target, missing, create=request.create_compute)
        ml_client = client.make_client(names, rest.credential)
        for cluster in missing:
            _say(request, f"creating compute `{cluster}`")
            client.create_computes(ml_client, target, [cluster])
        if target.is_schedule:
            name = client.submit_schedule(ml_client, target, request.name, request.experiment)
            _report_schedule(rest, name, request)
            return
        _say(request, f"submitting to {names.shown}")
        name = client.submit_job(ml_client, target, request.name, request.experiment)
        if not request.wait:
            _report_submitted(rest, name, request)
            return
        with _interruptible(ml_client, names, name, request):
            _follow(rest, ml_client, name, request)


def _say(request: Request, text: str) -> None:
    if not request.quiet:
        common.say(text, err=request.as_json)


def _report_schedule(rest: Rest, name: str, request: Request) -> None:
    trigger = rest.manage(f"/schedules/{quote(name)}")["properties"]["trigger"]
    coming = _find_next_fire(trigger)
    if request.as_json:
        following = None if coming is None else coming.isoformat()
        click.echo(json.dumps({"schedule": name, "workspace": rest.names.id, "next": following}, indent=2))
        return
    common.say(f"schedule {name} is set in {rest.names.shown}")
    if not trigger.get("startTime"):
        common.say("  without a start time, a new schedule starts its first job at once")
    if coming is not None:
        common.say(f"  next  {coming:%a %Y-%m-%d %H:%M} {trigger.get('timeZone') or 'UTC'}")


def _find_next_fire(trigger: Mapping[str, Any]) -> datetime | None:
    """When a schedule that was just set fires next, on its own clock; None if that cannot be known."""
    from worldsize.serving.errors import ServiceError
    from worldsize.serving.schedules import triggers

    now = datetime.now(timezone.utc)
    try:
        read = triggers.read_trigger(trigger, now)
    except ServiceError:  # a time zone of which this machine has no data
        return None
    due = cron.next_due(read, now)
    return None if due is None else due.astimezone(read.zone)


def _report_submitted(rest: Rest, name: str, request: Request) -> None:
    properties = rest.manage(f"/jobs/{name}")["properties"]
    studio = find_studio(properties)
    if request.as_json:
        job = {"id": name, "state": run_state(str(properties.get("status"))), "studio": studio}
        click.echo(json.dumps(job, indent=2))
        return
    common.say(f"job {name} is submitted" + (f"\n  studio  {studio}" if studio else ""))


@contextlib.contextmanager
def _interruptible(ml_client: Any, names: WorkspaceNames, name: str, request: Request) -> Iterator[None]:
    """On Ctrl-C say that the job goes on, or cancel it."""
    try:
        yield
    except KeyboardInterrupt:
        if request.cancel_on_interrupt:
            client.cancel(ml_client, name)
            click.echo(f"\njob {name} is being canceled", err=True)
        else:
            where = f"--resource-group {names.group} --workspace-name {names.workspace}"
            click.echo(
                f"\njob {name} goes on in the workspace\n"
                f"  look at it   worldsize show {name} --azure\n"
                f"  cancel it    az ml job cancel --name {name} {where}",
                err=True,
            )
        raise SystemExit(130) from None


def _follow(rest: Rest, ml_client: Any, name: str, request: Request) -> NoReturn:
    with choose_view(quiet=request.quiet or request.as_json) as view:
        studio = jobs.find_studio(rest.manage(f"/jobs/{name}")["properties"])
        view.notice(f"job {name}" + (f"  {studio}" if studio else ""))
        job = watch.watch_job(rest, name, view)
    succeeded = job.record.state == "succeeded"
    if request.as_json:
        click.echo(json.dumps(document(job.record, job), indent=2))
    else:
        _show_result(job, request, succeeded=succeeded)
    if request.download is not None:
        client.download(ml_client, name, request.download)
        common.say(f"downloaded to {request.download}", err=request.as_json)
    raise SystemExit(0 if succeeded else 1)


def _show_result(job: RemoteJob, request: Request, *, succeeded: bool) -> None:
    text = watch.render_result(job, steps=request.quiet or not is_terminal(sys.stdout))
    common.say(text, err=not succeeded)
    if succeeded:
        _show_speeds(job)


def _show_speeds(job: RemoteJob) -> None:
    """The measured speed of each training step beside the predicted one."""
    for name, compared in speed_view.compare_speeds(job.predicted_speeds()).items():
        for line in speed_view.render_speed(compared):
            common.say(f"  {name}  {line}")

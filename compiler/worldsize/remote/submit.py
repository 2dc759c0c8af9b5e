"""`worldsize.submit`: checks, compiles and submits to a workspace in Azure, and follows the job."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct

from worldsize.azureml.model import Job
from worldsize.base.wording import join_words, plural
from worldsize.remote import jobs, recording, targets, watch
from worldsize.remote.errors import RemoteError, explain_errors
from worldsize.remote.jobs import RemoteJob
from worldsize.remote.names import WorkspaceNames, find_workspace
from worldsize.remote.rest import Rest
from worldsize.remote.targets import Target
from worldsize.running.model.results import View
from worldsize.running.show.views import QuietView

if TYPE_CHECKING:
    from azure.ai.ml import MLClient
    from azure.core.credentials import TokenCredential


MOST_FILES = 200  # of one folder that a dry run names
Show = Callable[[Target | RemoteJob | str], None]


class SubmitOptions(Struct, frozen=True):
    """How to submit.

    Args:
        subscription: Of the workspace; what is left out of the three names comes from the environment or
            ``config.json``.
        group: Its resource group.
        workspace: Its name.
        settings: Other values of inputs, by name, or by ``STEP.NAME``.
        output: The folder that keeps what a spec compiles to.
        name: Of the job, or of the schedule.
        experiment: Instead of that in the file.
        schedule: Whether to create or replace the schedule instead of starting a job.
        create_compute: Whether to create the clusters that the workspace lacks.
        wait: Whether to follow the job to its end.
        download: A folder for outputs and logs after the end.
        cancel_on_interrupt: Whether Ctrl-C also cancels the job.
    """

    subscription: str | None = None
    group: str | None = None
    workspace: str | None = None
    settings: Mapping[str, str] = {}
    output: Path | None = None
    name: str | None = None
    experiment: str | None = None
    schedule: bool = False
    create_compute: bool = False
    wait: bool = True
    download: Path | None = None
    cancel_on_interrupt: bool = False

    def find_workspace(self) -> WorkspaceNames:
        """The names of the workspace.

        Raises:
            RemoteError: One is missing.
        """
        return find_workspace(self.subscription, self.group, self.workspace)


class Submitted(Struct, frozen=True):
    """A job or a schedule in a workspace."""

    name: str
    workspace: WorkspaceNames
    properties: Mapping[str, Any]  # of the schedule, or of the job when it was submitted, as Azure has them
    job: RemoteJob | None = None  # at its end; None if it was not followed


class FollowInterruptError(KeyboardInterrupt):
    """Ctrl-C ended the view of a job, which goes on unless it is canceled."""

    def __init__(self, name: str, workspace: WorkspaceNames, *, canceled: bool) -> None:
        super().__init__()
        self.name = name
        self.workspace = workspace
        self.canceled = canceled


def submit(
    file: str | os.PathLike[str],
    options: SubmitOptions,
    *,
    view: View | None = None,
    show: Show = lambda _: None,
) -> Submitted:
    """Submit a spec, a pipeline, a job or a schedule to a workspace, and follow the job.

    Args:
        file: The file; a spec is compiled.
        options: How to submit it.
        view: Shows the steps of the job; by default nothing does.
        show: Called with the checked target before anything is sent, with sentences on what is done, and with
            the job at its end, before its outputs are downloaded.

    Raises:
        SpecError: The file has errors. Nothing was submitted.
        RunError: A setting names no input, or its value does not fit. Nothing was submitted.
        OutputError: The folder for the output cannot be written.
        RemoteError: The file is nothing that can be submitted, or the workspace cannot be used.
        FollowInterruptError: Ctrl-C, while the job was followed.
    """
    rest = Rest(options.find_workspace())
    with _load_target(file, options, fill=partial(_fill, rest)) as target:
        show(target)
        with explain_errors(rest.names.shown):
            return _send(rest, target, options, view or QuietView(), show)


def _fill(rest: Rest, job: Job) -> Job:
    """The job with the inputs of the registered components that it names, for settings."""
    with explain_errors(rest.names.shown):
        return targets.fill_components(rest, job)


def preview(
    file: str | os.PathLike[str], options: SubmitOptions, *, show: Show = lambda _: None
) -> dict[str, Any]:
    """The requests that :func:`submit` would send, and what it would upload; nothing is sent.

    Names of the workspace that are not known stand in angle brackets. It raises what :func:`submit` does.
    """
    try:
        names = options.find_workspace()
    except RemoteError:
        names = WorkspaceNames(
            options.subscription or "<subscription>",
            options.group or "<resource group>",
            options.workspace or "<workspace>",
        )
    with _load_target(file, options) as target:
        show(target)
        with explain_errors(names.shown), recording.recording() as recorder:
            _send_target(make_client(names, recording.StaticCredential()), target, options)
    return {
        "workspace": names.id,
        "computes": target.compute_names,
        "uploads": fold_uploads(recorder.uploads),
        "requests": recorder.requests,
    }


@contextlib.contextmanager
def _load_target(file: str | os.PathLike[str], options: SubmitOptions, **fill: Any) -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="worldsize-") as temporary:
        out = options.output or Path(temporary) / "pipeline"
        yield targets.load_target(Path(file), out, options.settings, schedule=options.schedule, **fill)


def fold_uploads(paths: Sequence[str]) -> list[str]:
    """The files that are uploaded; of a folder with many, such as one of data, how many."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault("/".join(path.split("/")[:2]), []).append(path)
    folded = []
    for folder, files in folders.items():
        folded += files if len(files) <= MOST_FILES else [f"{folder}/ ({plural(len(files), 'file')})"]
    return folded


def _send(rest: Rest, target: Target, options: SubmitOptions, view: View, show: Show) -> Submitted:
    names = rest.names
    targets.check_registered(rest, target)
    missing = find_missing(rest, target.compute_names)
    require_creatable(target, missing, create=options.create_compute)
    ml_client = make_client(names, rest.credential)
    for cluster in missing:
        show(f"creating compute `{cluster}`")
        create_compute(ml_client, target, cluster)
    if not target.is_schedule:
        show(f"submitting to {names.shown}")
    name = _send_target(ml_client, target, options)
    if target.is_schedule:
        return Submitted(name, names, rest.manage(f"/schedules/{quote(name)}")["properties"])
    if not options.wait:
        return Submitted(name, names, rest.manage(f"/jobs/{name}")["properties"])
    try:
        with view:
            properties = rest.manage(f"/jobs/{name}")["properties"]
            studio = jobs.find_studio(properties)
            view.notice(f"job {name}" + (f"  {studio}" if studio else ""))
            job = watch.watch_job(rest, name, view)
        show(job)
        if options.download is not None:
            with quiet(), contextlib.redirect_stdout(io.StringIO()):
                ml_client.jobs.download(name, download_path=options.download, all=True)
    except KeyboardInterrupt:
        if options.cancel_on_interrupt:
            with quiet():
                ml_client.jobs.begin_cancel(name)
        raise FollowInterruptError(name, names, canceled=options.cancel_on_interrupt) from None
    return Submitted(name, names, properties, job)


def make_client(names: WorkspaceNames, credential: TokenCredential) -> MLClient:
    """The client of a workspace, which shows no progress and sends no telemetry."""
    with quiet():
        from azure.ai.ml import MLClient  # seconds

        return MLClient(
            credential,
            names.subscription,
            names.group,
            names.workspace,
            show_progress=False,
            enable_telemetry=False,
        )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what the client prints from the terminal: notes on experimental classes, blank lines, logs."""
    loggers = [logging.getLogger(name) for name in ("azure", "azure.ai.ml")]  # the client sets its own level
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def find_missing(rest: Rest, names: Sequence[str]) -> list[str]:
    """The clusters among ``names`` that the workspace does not have."""
    if not names:
        return []
    existing = {str(compute["name"]).lower() for compute in rest.list("/computes")}
    return [name for name in names if name.lower() not in existing]


def require_creatable(target: Target, missing: Sequence[str], *, create: bool) -> None:
    """Refuse a job whose clusters are missing and are not to be, or cannot be, created.

    Raises:
        RemoteError: There are such clusters.
    """
    unknown = [name for name in missing if _find_size(target, name) is None]
    if not missing or (create and not unknown):
        return
    listed = join_words([f"`{name}`" for name in (unknown if create else missing)], "and")
    message = f"the workspace has no compute {listed}"
    if unknown:
        shown = f"compute: {{{unknown[0]}: {{instance_type: Standard_…, max_instances: 2}}}}"
        help_ = f"write its VM size into `worldsize.yml`, `{shown}`, and add `--create-compute`"
        raise RemoteError(message, help_)
    raise RemoteError(message, "add `--create-compute`, which creates it as the spec or `worldsize.yml` says")


def _find_size(target: Target, name: str) -> object:
    cluster = target.clusters.get(name)
    return cluster if isinstance(cluster, Path) or cluster is None else cluster.instance_type


def create_compute(client: MLClient, target: Target, name: str) -> None:
    """Create a cluster as a compute profile of the spec, a compute file or ``worldsize.yml`` describes it."""
    from azure.ai.ml import load_compute
    from azure.ai.ml.entities import AmlCompute

    with quiet():
        cluster = target.clusters[name]
        if isinstance(cluster, Path):
            compute = load_compute(cluster)
        else:
            size, tier = cluster.instance_type, cluster.tier or "dedicated"
            compute = AmlCompute(name=name, size=size, max_instances=cluster.max_instances or 1, tier=tier)
        client.compute.begin_create_or_update(compute).result()


def _send_target(client: MLClient, target: Target, options: SubmitOptions) -> str:
    """Submit a job, or create or replace a schedule; the name that the workspace knows it by."""
    with quiet():
        from azure.ai.ml import load_job

        # azure-ai-ml exports the other loaders and not this one, which `az ml schedule create` uses.
        from azure.ai.ml.entities._load_functions import load_schedule

        if target.is_schedule:
            sent: Any = load_schedule(target.path)
            job = sent.create_job
        else:
            sent = job = load_job(target.path, params_override=list(target.overrides))
        if options.name is not None:
            sent.name = options.name
        if options.experiment is not None and hasattr(job, "experiment_name"):
            job.experiment_name = options.experiment
        if target.is_schedule:
            return str(client.schedules.begin_create_or_update(sent).result().name)
        return str(client.jobs.create_or_update(sent).name)

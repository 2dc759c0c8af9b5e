"""azure-ai-ml's client: submits jobs and schedules, creates clusters, and downloads outputs."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worldsize.base.wording import join_words
from worldsize.remote.errors import RemoteError
from worldsize.remote.names import WorkspaceNames
from worldsize.remote.rest import Rest, default_credential
from worldsize.remote.targets import Target

if TYPE_CHECKING:
    from azure.ai.ml import MLClient
    from azure.core.credentials import TokenCredential


def make_client(names: WorkspaceNames, credential: TokenCredential | None = None) -> MLClient:
    """The client of a workspace, which shows no progress and sends no telemetry."""
    with quiet():
        from azure.ai.ml import MLClient  # seconds

        return MLClient(
            credential or default_credential(),
            names.subscription,
            names.group,
            names.workspace,
            show_progress=False,
            enable_telemetry=False,
        )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what the client prints from the terminal: notes on experimental classes, blank lines, logs."""
    logger = logging.getLogger("azure")
    level = logger.level
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
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


def create_computes(client: MLClient, target: Target, names: Sequence[str]) -> None:
    """Create clusters as the spec's compute profiles, compute files or ``worldsize.yml`` describe them."""
    from azure.ai.ml import load_compute
    from azure.ai.ml.entities import AmlCompute

    with quiet():
        for name in names:
            cluster = target.clusters[name]
            if isinstance(cluster, Path):
                compute = load_compute(cluster)
            else:
                compute = AmlCompute(
                    name=name,
                    size=cluster.instance_type,
                    max_instances=cluster.max_instances or 1,
                    tier=cluster.tier or "dedicated",
                )
            client.compute.begin_create_or_update(compute).result()


def load_job(target: Target, name: str | None, experiment: str | None) -> Any:
    """The job as azure-ai-ml's own object, with another name or experiment."""
    with quiet():
        from azure.ai.ml import load_job as load

        job = load(target.path, params_override=list(target.overrides))
    if name is not None:
        job.name = name
    if experiment is not None:
        job.experiment_name = experiment
    return job


def submit_job(client: MLClient, target: Target, name: str | None, experiment: str | None) -> str:
    """Submit a job; the name that the workspace knows it by."""
    job = load_job(target, name, experiment)
    with quiet():
        return str(client.jobs.create_or_update(job).name)


def submit_schedule(client: MLClient, target: Target, name: str | None, experiment: str | None) -> str:
    """Create a schedule, or replace the one of its name; its name."""
    with quiet():
        # azure-ai-ml exports the other loaders and not this one, which `az ml schedule create` uses.
        from azure.ai.ml.entities._load_functions import load_schedule

        schedule = load_schedule(target.path)
        if name is not None:
            schedule.name = name
        if experiment is not None and hasattr(schedule.create_job, "experiment_name"):
            schedule.create_job.experiment_name = experiment
        return str(client.schedules.begin_create_or_update(schedule).result().name)


def download(client: MLClient, name: str, folder: Path) -> None:
    """Download the outputs of a job, and its logs."""
    with quiet(), contextlib.redirect_stdout(io.StringIO()):
        client.jobs.download(name, download_path=folder, all=True)


def cancel(client: MLClient, name: str) -> None:
    """Ask the workspace to cancel a job."""
    with quiet():
        client.jobs.begin_cancel(name)

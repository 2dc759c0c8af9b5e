"""Submits a job: its body becomes YAML, the checker judges it, and the queue gets it."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from worldsize.checking import check, discover
from worldsize.checking.settings import describe_size, read_settings
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.yaml import load
from worldsize.running.prepare.targets import MENTIONED
from worldsize.serving.database import now
from worldsize.serving.errors import ServiceError, bad_request, conflict
from worldsize.serving.jobs import records
from worldsize.serving.jobs.assets import WorkspaceLookup
from worldsize.serving.jobs.plan import plan_children
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.translate.job import job_type, translate_job, write_files, write_settings
from worldsize.serving.jobs.translate.lookup import References
from worldsize.serving.workspace import Workspace

# What is not the user's text: the client writes types that it derives from Python functions.
TOLERATED = MENTIONED | {"WS663"}
MAX_SHOWN = 10  # errors in the message of an answer
# MLflow and the service's own identifiers of runs have no other characters; dots separate steps.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
_CHECKERS = ThreadPoolExecutor(2, "submit")  # other threads answer what takes no seconds


async def submit(
    workspace: Workspace,
    name: str,
    properties: Mapping[str, Any],
    *,
    schedule: str | None = None,
) -> JobRecord:
    """Check a job, store it and put it into the queue.

    Args:
        workspace: The workspace.
        name: The name of the job.
        properties: Those of the body; they are kept as they are.
        schedule: The schedule that starts the job.

    Returns:
        The stored job.

    Raises:
        ServiceError: The name is taken or not a name, or the job has errors: those of its body, or those
            that the checker finds.
    """
    if NAME.fullmatch(name) is None:
        raise bad_request(
            f"`{name[:80]}` is not a name of a job: use up to 255 letters, digits, `-` and `_`,"
            " the first of which is a letter or a digit."
        )
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_CHECKERS, _submit, workspace, name, properties, schedule)


def _submit(
    workspace: Workspace, name: str, properties: Mapping[str, Any], schedule: str | None
) -> JobRecord:
    _refuse_taken(workspace, name)
    kind = job_type(properties)
    folder = Path(tempfile.mkdtemp(prefix=".", dir=workspace.home.jobs))
    try:
        children = _write_checked(workspace, properties, folder)
        record = _describe(name, kind, properties, children.own_step, schedule)
        below = [*children.records(record)]
        with workspace.database.transaction():  # from here on no other job is stored in between
            _refuse_taken(workspace, name)
            target = workspace.home.jobs / name
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)
            records.insert(workspace.database, record)
            records.insert_missing(workspace.database, below)
            records.set_status(workspace.database, name, "Queued")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    stored = records.get_job(workspace.database, name)
    assert stored is not None
    return stored


def _describe(
    name: str, kind: str, properties: Mapping[str, Any], step: str | None, schedule: str | None
) -> JobRecord:
    return JobRecord(
        name=name,
        type=kind,
        display_name=str(properties.get("displayName") or name),
        experiment=str(properties.get("experimentName") or "Default"),
        status="NotStarted",
        properties=properties,
        root=name,
        created=now(),
        step=step,
        schedule=schedule,
    )


def _refuse_taken(workspace: Workspace, name: str) -> None:
    if records.get_job(workspace.database, name) is not None:
        raise conflict(f"A job named `{name}` exists already.")


def _write_checked(workspace: Workspace, properties: Mapping[str, Any], folder: Path) -> Any:
    """Write the YAML of a job and check it; the children that it will have."""
    references = References(WorkspaceLookup(workspace))
    files = translate_job(properties, references)
    settings = describe_project(workspace, references)
    path = write_files(files, folder, settings)
    report = check([path])
    if refused := [each for each in report.errors if each.confidence == "certain" and _judged(each)]:
        raise ServiceError(400, "ValidationError", describe_errors(refused))
    lenient = sorted({each.code for each in report.errors})
    if lenient:  # the runner checks once more, and must not be stricter
        write_settings(folder, {**settings, "severity": dict.fromkeys(lenient, "warning")})
    return plan_children(path)


def _judged(diagnostic: Diagnostic) -> bool:
    return diagnostic.code not in TOLERATED


def describe_errors(diagnostics: Iterable[Diagnostic]) -> str:
    """The errors of the checker in the message of an answer: code, sentence and help."""
    lines = [
        f"{each.code}: {each.message}" + (f" ({each.help})" if each.help else "") for each in diagnostics
    ]
    more = [f"and {len(lines) - MAX_SHOWN} more"] if len(lines) > MAX_SHOWN else []
    return "The job has errors.\n" + "\n".join([*lines[:MAX_SHOWN], *more])


def describe_project(workspace: Workspace, references: References) -> dict[str, Any]:
    """The ``worldsize.yml`` of a job: that of the server's project, with what the workspace knows itself."""
    described: dict[str, Any] = {"allow": [str(workspace.home.root.resolve())]}
    computes, assets, sizes = dict[str, Any](), dict[str, str](), dict[str, Any]()
    path = discover.find_settings(str(workspace.project.resolve()), discover.find_tree(workspace.project))
    if path is not None:
        settings = read_settings(load(path))
        described["allow"] += [str(folder) for folder in settings.allow]
        assets = {asset.reference: str(asset.path.absolute()) for asset in settings.assets}
        for compute in settings.computes:
            told = {"instance_type": compute.size, "max_instances": compute.max_instances}
            computes[compute.name] = {key: each.value for key, each in told.items() if each is not None}
        sizes = {size.name: describe_size(size) for size in settings.vm_sizes.values()}
    assets |= {reference: str(target) for reference, target in references.assets.items()}
    described |= {"compute": {**references.computes, **computes}, "assets": assets}
    return {**described, "vm_sizes": sizes} if sizes else described

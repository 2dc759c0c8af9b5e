"""Submits a job: its body becomes YAML, the checker judges it, and the queue gets it."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldsize.azureml.references import classify
from worldsize.checking import check_job, discover
from worldsize.checking.settings import describe_size, read_settings
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.errors import SpecError
from worldsize.documents.yaml import load
from worldsize.facts import vm_sizes
from worldsize.running.prepare.preparation import MENTIONED
from worldsize.serving.control import assets, paths
from worldsize.serving.control.assets import get_resource
from worldsize.serving.control.paths import AssetName, parse_asset, project_settings
from worldsize.serving.database import mapping_of, now
from worldsize.serving.errors import ServiceError, bad_request, conflict
from worldsize.serving.jobs import records
from worldsize.serving.jobs.plan import count_processes, plan_children
from worldsize.serving.jobs.process import write_width
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.translate.body import References
from worldsize.serving.jobs.translate.job import job_type, translate_job, write_files
from worldsize.serving.tracking.models import sync_for
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
    """Check a job, store it with the properties of its body as they are, and put it into the queue.

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
    """Write the YAML of a job and check it, once for all: the runner does not check it again."""
    references = References(WorkspaceLookup(workspace))
    files = translate_job(properties, references)
    settings = describe_project(workspace, references)
    path = write_files(files, folder, settings)
    try:
        job = check_job(
            path, tolerate=lambda error: error.code in TOLERATED or error.confidence != "certain"
        ).job
    except SpecError as error:
        wrong = [diagnostic for diagnostic in error.diagnostics if diagnostic.severity == "error"]
        raise ServiceError(400, "ValidationError", _describe_errors(wrong)) from None
    write_width(folder, count_processes(job) if job is not None else 1)
    return plan_children(job)


def _describe_errors(diagnostics: Iterable[Diagnostic]) -> str:
    """The errors of the checker in the message of an answer: code, sentence and help."""
    lines = [
        f"{diagnostic.code}: {diagnostic.message}" + (f" ({diagnostic.help})" if diagnostic.help else "")
        for diagnostic in diagnostics
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
            members = {"instance_type": compute.size, "max_instances": compute.max_instances}
            computes[compute.name] = {
                key: member.value for key, member in members.items() if member is not None
            }
        sizes = {size.name: describe_size(size) for size in settings.vm_sizes.values()}
    assets |= {reference: str(target) for reference, target in references.assets.items()}
    described |= {"compute": {**references.computes, **computes}, "assets": assets}
    return {**described, "vm_sizes": sizes} if sizes else described


@dataclass(frozen=True, slots=True)
class WorkspaceLookup:
    """The assets and computes of a workspace."""

    workspace: Workspace

    def component(self, reference: str) -> Mapping[str, Any] | None:
        """The specification of a component, or None."""
        asset = find_asset(self.workspace, "components", reference)
        specification = asset.properties.get("componentSpec") if asset is not None else None
        return specification if isinstance(specification, Mapping) else None

    def environment(self, reference: str) -> Mapping[str, Any] | None:
        """The properties of an environment, or None."""
        asset = find_asset(self.workspace, "environments", reference)
        return asset.properties if asset is not None else None

    def path(self, reference: str) -> Path | None:
        """The path of data, code or a model, or None."""
        sync_for(self.workspace, reference)
        return paths.local_path(self.workspace, reference)

    def web_address(self, reference: str) -> str | None:
        """The address outside of the workspace that a data asset stands for, or None."""
        asset = paths.find_data(self.workspace, reference)
        address = asset.properties.get("dataUri") if asset is not None else None
        return address if isinstance(address, str) and classify(address) == "web" else None

    def vm_size(self, compute: str) -> Mapping[str, Any] | None:
        """The size of a compute as ``worldsize.yml`` has it, or None."""
        resource = get_resource(self.workspace.database, "computes", compute)
        body = {} if resource is None else resource.body
        settings = mapping_of(mapping_of(body, "properties"), "properties")  # of its type of compute
        size, learned = settings.get("vmSize"), project_settings(self.workspace).vm_sizes
        if not isinstance(size, str) or vm_sizes.lookup(size, learned) is None:
            return None
        most = mapping_of(settings, "scaleSettings").get("maxNodeCount")
        limit = {"max_instances": most} if isinstance(most, int) and most > 0 else {}
        return {"instance_type": size, **limit}


def find_asset(workspace: Workspace, kind: str, reference: str) -> assets.Asset | None:
    """The asset of an id, a short form or a label of the workspace; None if it is elsewhere or missing."""
    name = parse_asset(reference)
    if name is None:  # a name alone means its newest version
        name = AssetName(kind, reference.removeprefix("azureml:"), None)
    if name.kind not in ("", kind):
        return None
    return paths.find_asset(workspace.database, kind, name)

"""Submits a job: its body becomes YAML, the checker judges it, and the queue gets it."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from worldsize.azureml import command_launchers, fields
from worldsize.azureml.command_launchers import find_launcher_call
from worldsize.azureml.launch import Launch, read_launches
from worldsize.azureml.model import Data, Job, Literal, Step
from worldsize.azureml.tree import Tree
from worldsize.checking import check_job
from worldsize.checking.settings import describe_size
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.errors import SpecError
from worldsize.running.prepare.preparation import MENTIONED
from worldsize.serving.control.paths import output_path, project_settings
from worldsize.serving.database import now
from worldsize.serving.errors import ServiceError, bad_request, conflict
from worldsize.serving.jobs import records
from worldsize.serving.jobs.process import WIDTH
from worldsize.serving.jobs.records import JobRecord, child_name, child_record
from worldsize.serving.jobs.translate.body import References
from worldsize.serving.jobs.translate.job import job_type, translate_job, write_files
from worldsize.serving.workspace import BLOB_STORE, Workspace

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
        job = _write_checked(workspace, properties, folder)
        is_pipeline = job is not None and job.type == "pipeline"
        record = JobRecord(
            name=name,
            type=kind,
            display_name=str(properties.get("displayName") or name),
            experiment=str(properties.get("experimentName") or "Default"),
            status="Queued",
            properties=properties,
            root=name,
            created=now(),
            step=None if job is None or is_pipeline else next(iter(job.steps), None),
            schedule=schedule,
        )
        below = [*_list_children(job, record)] if job is not None and is_pipeline else []
        with workspace.database.transaction():  # from here on no other job is stored in between
            _refuse_taken(workspace, name)
            target = workspace.home.jobs / name
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)
            records.insert(workspace.database, record, *below)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return record


def _refuse_taken(workspace: Workspace, name: str) -> None:
    if records.get_job(workspace.database, name) is not None:
        raise conflict(f"A job named `{name}` exists already.")


def _write_checked(workspace: Workspace, properties: Mapping[str, Any], folder: Path) -> Job | None:
    """Write the YAML of a job and check it, once for all: the runner does not check it again. Its graph."""
    references = References(workspace)
    files = translate_job(properties, references)
    settings = describe_project(workspace, references)
    path = write_files(files, folder, settings)
    try:
        checked = check_job(
            path, tolerate=lambda error: error.code in TOLERATED or error.confidence != "certain"
        )
    except SpecError as error:
        wrong = [diagnostic for diagnostic in error.diagnostics if diagnostic.severity == "error"]
        raise ServiceError(400, "ValidationError", _describe_errors(wrong)) from None
    processes = count_processes(checked.tree, checked.job) if checked.job is not None else 1
    (folder / WIDTH).write_text(str(processes), encoding="ascii")  # by which the queue lends slots
    return checked.job


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
    settings = project_settings(workspace)
    assets = {asset.reference: str(asset.path.absolute()) for asset in settings.assets}
    computes = dict(references.computes)
    for compute in settings.computes:
        members = {"instance_type": compute.size, "max_instances": compute.max_instances}
        computes[compute.name] = {key: member.value for key, member in members.items() if member is not None}
    return {
        "allow": [str(folder) for folder in (workspace.home.root.resolve(), *settings.allow)],
        "compute": computes,
        "assets": {**assets, **{reference: str(path) for reference, path in references.assets.items()}},
        "vm_sizes": {size.name: describe_size(size) for size in settings.vm_sizes.values()},
    }


TYPES = {"sweep": "Sweep", "pipeline": "Pipeline"}  # of jobs by the kind of the step; others are commands


def _list_children(job: Job, root: JobRecord, outer: str | None = None) -> Iterator[JobRecord]:
    """The jobs below a pipeline job: its steps, and those of the pipelines inside it."""
    for step in job.steps.values():
        name = step.name if outer is None else f"{outer}.{step.name}"
        title = step.display_name.value if step.display_name is not None else None
        objective = _find_objective(step)
        yield child_record(
            root,
            name,
            parent=root.name if outer is None else child_name(root.name, outer),
            type_=TYPES.get(step.type, "Command"),
            title=str(title or step.name),
            properties={
                "inputs": _list_inputs(step, root.name, outer),
                "outputs": _list_outputs(step),
                **({"objective": objective} if objective else {}),
            },
        )
        if step.component is not None and step.component.graph is not None:
            yield from _list_children(step.component.graph, root, name)


def _list_inputs(step: Step, root: str, outer: str | None) -> dict[str, Any]:
    """The inputs of a step as the service shows them: literals, and data with its address."""
    ports = step.component.inputs if step.component is not None else {}
    shown: dict[str, Any] = {}
    for name, argument in step.inputs.items():
        value, port = argument.value, ports.get(name)
        type_ = (port.type if port is not None else None) or "uri_folder"
        if isinstance(value, Literal):
            if not isinstance(value.value, dict | list):
                shown[name] = {"jobInputType": "literal", "value": str(value.value)}
        elif isinstance(value, Data):
            if value.path is not None:
                shown[name] = {"jobInputType": type_, "uri": str(value.path.value)}
        elif (bound := value.expression).scope == "parent.jobs" and bound.side == "outputs" and bound.port:
            source = bound.step if outer is None else f"{outer}.{bound.step}"
            path = output_path(child_name(root, str(source)), bound.port).path
            path = path.removesuffix("/") if type_ == "uri_file" else path
            # Without a workspace, which each client knows by names of its own.
            shown[name] = {"jobInputType": type_, "uri": f"azureml://datastores/{BLOB_STORE}/paths/{path}"}
        elif value.mode is not None:
            shown[name] = {"jobInputType": type_, "uri": str(bound)}
        else:
            shown[name] = {"jobInputType": "literal", "value": str(bound)}
    return shown


def _find_objective(step: Step) -> dict[str, Any] | None:
    """What a sweep looks for, as the service shows it."""
    objective = fields.read_field(step.raw, "objective") if step.raw is not None else None  # type: ignore[arg-type]
    if step.type != "sweep" or objective is None or not isinstance(objective.value, dict):
        return None
    goal, metric = (str(objective.value.get(key) or "") for key in ("goal", "primary_metric"))
    return {"goal": goal.capitalize(), "primaryMetric": metric}


def _list_outputs(step: Step) -> dict[str, Any]:
    """The outputs of a step: of the types that its component declares, with the names they are given."""
    component = step.component
    shown: dict[str, Any] = {}
    for name, port in component.outputs.items() if component is not None else ():
        setting = step.outputs.get(name)
        shown[name] = {"jobOutputType": port.type}
        if setting is not None:
            output = setting.value
            named = {"assetName": output.name, "assetVersion": output.version}
            if output.binding is None:
                named["uri"] = output.path
            shown[name] |= {key: str(field.value) for key, field in named.items() if field is not None}
    return shown


def count_processes(tree: Tree, job: Job) -> int:
    """The processes of the largest step of a job, also those that its command starts: each takes a slot."""
    components = (step.component for step in job.steps.values())
    graphs = (component.graph for component in components if component is not None)
    widths = [count_processes(tree, graph) for graph in graphs if graph is not None]
    return max([1, *widths, *map(_count_processes, read_launches(tree, job))])


def _count_processes(launch: Launch) -> int:
    if launch.kind == "tensorflow" and launch.workers.field is not None:
        return launch.workers.value or 1
    command = launch.step.component.command if launch.step.component is not None else None
    call = find_launcher_call(str(command.value)) if command is not None else None
    instances, started = launch.instances.value or 1, 1
    if call is not None:
        counts = command_launchers.count_processes(
            call, launch.read_number, devices=None, instances=instances
        )
        started = counts.starts or 1
    if launch.kind is None and started == 1:  # each instance would do the same
        return 1
    return instances * (launch.processes.value or 1) * started

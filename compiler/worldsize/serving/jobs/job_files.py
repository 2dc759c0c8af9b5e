"""What a job leaves behind: outputs and artifacts at their paths in datastores, and data and model assets."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldsize.running.model.folder import StepFolder
from worldsize.running.model.results import RunResult
from worldsize.running.reuse.digests import walk_tree
from worldsize.serving.control import assets
from worldsize.serving.control.paths import datastore_path, output_path
from worldsize.serving.database import Database, mapping_of
from worldsize.serving.home import PRIVATE_FOLDER, Home
from worldsize.serving.jobs import records
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.translate.body import Body, output_type
from worldsize.serving.storage.artifacts import prepare_run_folder, run_blob_path
from worldsize.serving.storage.files import is_inside, make_link
from worldsize.serving.workspace import ARTIFACT_STORE, BLOB_STORE, CONTAINERS, Scope

MODELS = ("mlflow_model", "custom_model", "triton_model")


@dataclass(frozen=True, slots=True)
class JobOutput:
    """One output of a job as its body declares it."""

    name: str
    type: str  # uri_folder, uri_file, mltable, mlflow_model, custom_model or triton_model
    uri: str | None = None  # where the user wants it
    asset_name: str | None = None
    asset_version: str | None = None


def list_outputs(job: JobRecord) -> Iterator[JobOutput]:
    """The outputs that a job declares."""
    for name, value in mapping_of(job.properties, "outputs").items():
        if not isinstance(value, Mapping):
            yield JobOutput(name, "uri_folder")
            continue
        body = Body(value, name)
        yield JobOutput(
            name,
            output_type(body),
            body.text("uri"),
            body.text("assetName") or body.text("name"),
            body.text("assetVersion") or body.text("version"),
        )


def publish_outputs(home: Home, database: Database, job: JobRecord, result: RunResult) -> None:
    """Link the outputs of a job and those below it, and register those that have a name."""
    for name, path in result.outputs.items():  # of the pipeline itself
        make_link(path, _output_link(home, job.name, name))
    for part in (job, *records.descendants(database, job.name)):
        ended = records.get_job(database, part.name)
        completed = ended is not None and ended.status == "Completed"
        if completed or (part.name == job.name and result.state == "succeeded"):
            for output in list_outputs(part):
                _publish(home, database, part, output)


def _publish(home: Home, database: Database, job: JobRecord, output: JobOutput) -> None:
    link = _output_link(home, job.name, output.name)
    if not link.exists():
        return
    if output.uri:
        _place(home, database, job, output, link)
    if output.asset_name:
        register_output(database, job, output)


def _place(home: Home, database: Database, job: JobRecord, output: JobOutput, link: Path) -> None:
    """Make an output visible where the user wants it."""
    uri = (output.uri or "").replace("${{name}}", job.name).replace("${{output_name}}", output.name)
    target, source = datastore_path(home, database, uri), Path(os.path.realpath(link))
    if target is None:
        return
    if target.is_symlink():  # to the output of an earlier job
        target.unlink()
    if (target.is_dir() and source.is_dir()) or (target.is_file() and source.is_file()):
        _copy_into(home, job, source, target)  # data lies there already, which the new files join
    else:
        make_link(source, target)


def _copy_into(home: Home, job: JobRecord, source: Path, target: Path) -> None:
    """Copy each file as a whole; no link leads out of the runs, or out of the home."""
    part = home.jobs / job.root / "output.part"
    for entry in walk_tree(source, home.runs):
        place = target / entry.place if entry.place else target
        if entry.kind == "file" and is_inside(home, place.parent):
            place.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            shutil.copyfile(source / entry.place, part)
            part.replace(place)


def register_output(database: Database, job: JobRecord, output: JobOutput) -> None:
    """Register an output as a data or model asset, unless an earlier call did so."""
    assert output.asset_name is not None
    kind = "models" if output.type in MODELS else "data"
    if any(version.job == job.name for version in assets.list_versions(database, kind, output.asset_name)):
        return
    container = assets.get_container(database, kind, output.asset_name)
    version = output.asset_version or (container.next if container is not None else "1")
    uri = output_uri(Scope(), job.name, output.name, output.type)
    properties: dict[str, Any] = {"description": "", "tags": {}, "properties": {}}
    if kind == "models":
        properties |= {"modelUri": uri, "modelType": output.type, "flavors": {}, "jobName": job.name}
    else:
        properties |= {"dataUri": uri, "dataType": output.type}
    assets.put_version(database, kind, output.asset_name, version, properties, job=job.name)


def output_uri(scope: Scope, job: str, output: str, type_: str) -> str:
    """The address of an output in the default datastore."""
    uri = output_path(job, output).long_form(scope)
    return uri.removesuffix("/") if type_ == "uri_file" else uri


PIPELINE_LOG = "logs/azureml/executionlogs.txt"  # what clients stream of a pipeline,
SWEEP_LOG = "azureml-logs/hyperdrive.txt"  # of a sweep,
COMMAND_LOG = "user_logs/std_log.txt"  # and of a command in one process
# What is said before a command starts. Clients stream logs of such names, and no process writes this one.
NOTICES_LOG = "user_logs/std_log_notices.txt"
_PROCESS = re.compile(r"([a-z]+)-(\d+)\.log")


def artifacts_folder(home: Home, name: str) -> Path:
    """The folder of a job's artifacts."""
    return home.blobs / CONTAINERS[ARTIFACT_STORE] / run_blob_path(name, "")


def _output_link(home: Home, name: str, output: str) -> Path:
    return home.blobs / CONTAINERS[BLOB_STORE] / output_path(name, output).path


def link_step(home: Home, name: str, step: StepFolder, outputs: list[str], processes: int = 1) -> None:
    """Link what a step that starts will write: logs, artifacts and outputs."""
    folder = prepare_run_folder(home, name)
    for inner in ("outputs", "logs"):
        make_link(step.code / inner, folder / inner)
    for output in outputs:
        make_link(step.outputs / output, _output_link(home, name, output))
    link_logs(home, name, step, processes)


def link_logs(home: Home, name: str, step: StepFolder, processes: int = 1) -> None:
    """Link the logs that the processes of a step have begun, of so many processes."""
    paths = sorted(step.logs.glob("*.log"))
    folder = prepare_run_folder(home, name) if paths else artifacts_folder(home, name)
    for path, shown in name_logs([path.name for path in paths], processes):
        make_link(step.logs / path, folder / shown)


def name_logs(names: list[str], processes: int = 1) -> Iterator[tuple[str, str]]:
    """The logs of a step with the names that the service gives them.

    One process writes ``std_log.txt``; of several each has its own, numbered by rank. One of them begins
    first, and its log must not have the name of an only one for as long as it is alone.
    """
    for name in names:
        match = _PROCESS.fullmatch(name)
        if max(len(names), processes) == 1:
            yield name, COMMAND_LOG
        elif match is not None:
            kind = "_ps" if match[1] == "ps" else ""
            yield name, f"user_logs/std_log_process_{int(match[2]):02}{kind}.txt"


def append_log(home: Home, name: str, log: str, text: str) -> None:
    """Append text to a log of the service itself, such as that of a pipeline."""
    path = prepare_run_folder(home, name) / log
    path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    if path.is_symlink():
        return
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def list_logs(home: Home, name: str) -> list[str]:
    """The paths of a job's logs below its artifacts."""
    folder = artifacts_folder(home, name)
    paths = [
        path for inner in ("user_logs", "azureml-logs", "logs/azureml") for path in folder.glob(f"{inner}/*")
    ]
    return sorted(str(path.relative_to(folder)) for path in paths if path.is_file())

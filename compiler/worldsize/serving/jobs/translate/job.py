"""Writes a submitted job as files: ``pipeline.yml``, its components, and a ``worldsize.yml``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from worldsize.azureml import yaml_dump
from worldsize.running.prepare.graph.refusals import UNSUPPORTED_KINDS
from worldsize.serving.errors import ServiceError
from worldsize.serving.home import PRIVATE_FOLDER
from worldsize.serving.jobs.process import JOB_FILE, SETTINGS_FILE
from worldsize.serving.jobs.translate.body import Body, drop_empty
from worldsize.serving.jobs.translate.commands import read_command, read_settings
from worldsize.serving.jobs.translate.graph import FOLDER, GraphWriter
from worldsize.serving.jobs.translate.lookup import References
from worldsize.serving.jobs.translate.ports import read_inputs, read_outputs
from worldsize.serving.jobs.translate.sweeps import read_sweep

_SETTINGS = ("continue_on_step_failure", "force_rerun")


def job_type(properties: Mapping[str, Any]) -> str:
    """The type of a job as the service spells it: Command, Pipeline or Sweep.

    Raises:
        ServiceError: There is none, or jobs of that type do not run here.
    """
    word = Body(properties).text("jobType") or ""
    for name in _READERS:
        if name.lower() == word.lower():
            return name
    what, _ = UNSUPPORTED_KINDS.get(word.lower(), (f"of type `{word[:40]}`", ""))
    message = f"The job is {what}; `worldsize serve` runs {', '.join(_READERS)} jobs."
    raise ServiceError(400, "UserError", message)


def translate_job(properties: Mapping[str, Any], references: References) -> dict[str, Mapping[str, Any]]:
    """The files of a job by their paths; what they refer to is noted in ``references``.

    Args:
        properties: The ``properties`` of the body, without the defaults of the service.
        references: Resolves the ids.

    Raises:
        ServiceError: The body is not that of a job which runs here.
    """
    body, writer = Body(properties), GraphWriter(references)
    head = {
        "display_name": body.text("displayName"),
        "experiment_name": body.text("experimentName"),
        "description": body.text("description"),
        "tags": dict(body.object("tags")),
    }
    document = {**head, **_READERS[job_type(properties)](body, writer)}
    return {JOB_FILE: drop_empty(document), **writer.files}


def _read_ports(body: Body, references: References) -> dict[str, Any]:
    return {
        "inputs": read_inputs(body.object("inputs"), "properties.inputs", references),
        "outputs": read_outputs(body.object("outputs"), "properties.outputs"),
        "compute": references.compute(body.text("computeId")),
    }


def _read_single(body: Body, writer: GraphWriter) -> dict[str, Any]:
    references = writer.references
    return {"type": "command", **read_command(body, references), **_read_ports(body, references)}


def _read_sweep(body: Body, writer: GraphWriter) -> dict[str, Any]:
    references = writer.references
    trial = body.body("trial") or Body({}, "properties.trial")
    command = read_command(trial, references)
    resources = read_settings(Body({"resources": body.get("resources") or {}}))
    return {
        "type": "sweep",
        **_read_ports(body, references),
        **resources,
        "trial": command,
        **read_sweep(body),
    }


def _read_pipeline(body: Body, writer: GraphWriter) -> dict[str, Any]:
    settings, references = body.body("settings") or Body({}, "properties.settings"), writer.references
    compute = references.compute(settings.text("defaultCompute"))
    kept = {name: settings.get(name) for name in _SETTINGS if settings.get(name) is not None}
    kept["default_compute"] = compute or "serverless"
    jobs = writer.read_nodes(body.object("jobs"), "properties.jobs", f"./{FOLDER}/")
    ports = _read_ports(body, references)
    return {"type": "pipeline", **ports, "settings": kept, "jobs": jobs}


_READERS: Mapping[str, Callable[[Body, GraphWriter], dict[str, Any]]] = {
    "Command": _read_single,
    "Pipeline": _read_pipeline,
    "Sweep": _read_sweep,
}


def write_files(files: Mapping[str, Mapping[str, Any]], folder: Path, settings: Mapping[str, Any]) -> Path:
    """Write the files of a job into a folder of its own.

    Args:
        files: The documents by their paths.
        folder: The folder; an earlier one is replaced.
        settings: What ``worldsize.yml`` says beside them.

    Returns:
        The path of the job file.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name, document in files.items():
        path = folder / name
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        path.write_text(yaml_dump.dump(document), encoding="utf-8")
    write_settings(folder, settings)
    return folder / JOB_FILE


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the ``worldsize.yml`` of a job, which makes its folder a project of its own."""
    (folder / SETTINGS_FILE).write_text(yaml_dump.dump(drop_empty(settings)), encoding="utf-8")

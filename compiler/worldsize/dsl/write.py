"""Writes a pipeline job of azure-ai-ml as the YAML that the checker and the runner read."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from worldsize import checking
from worldsize.api import Compiled, output_folder
from worldsize.api.layout import lay_out_pipeline
from worldsize.azureml import yaml_dump
from worldsize.azureml.job import read_job
from worldsize.base import untrusted
from worldsize.base.span import Span
from worldsize.base.whole_file import write_whole
from worldsize.checking import Report, boundary
from worldsize.checking.python_places import PYTHON
from worldsize.checking.specs import make_spec_error
from worldsize.documents.errors import OutputError, PipelineError, SpecError
from worldsize.dsl.load import find_planned
from worldsize.planning import plan_file
from worldsize.planning.model import Plan
from worldsize.remote.submit import quiet
from worldsize.running.model.folder import REFERENCE, ignore_in_git, show_path

WRITTEN = Path(".worldsize") / "pipelines"  # where pipelines in Python are written, one folder each
PIPELINE = "pipeline.yml"
_SCHEMA = "https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json"
_ANONYMOUS = "CliV2AnonymousEnvironment"  # of the client, for an environment without a name
_EXPRESSION = "Expression: "  # how the client titles the component that it makes of `inputs.epochs * 2`


def find_folder(job: Any, name: str | None = None) -> Path:
    """The folder that a pipeline job is written to, by its name or another one."""
    text = str(name or job.name or job.display_name or "pipeline")
    return WRITTEN / "".join(
        character if character.isalnum() or character in "-_" else "-" for character in text
    )


def write_pipeline(job: Any, folder: Path, reference: str | None = None) -> Path:
    """Write a pipeline job, which ``reference`` names, below ``folder`` and return its file.

    A component that was loaded from YAML stays where it is, and the pipeline refers to it. One that the
    client made of arithmetic on inputs is copied. A pipeline in the pipeline becomes a file of its own, any
    other component a part of its step.

    Raises:
        PipelineError: azure-ai-ml cannot write the job.
        OutputError: The folder cannot be written.
    """
    document = _dump(job)
    files: dict[str, Any] = {}
    nodes = document.pop("jobs")  # the client sorts them, and people read steps in their order
    document = {"$schema": _SCHEMA, "type": document.pop("type"), **document}
    if "inputs" in document:
        document["inputs"] = _write_inputs(document["inputs"], job.inputs)
    document["jobs"] = {name: _write_node(node, nodes[name], files) for name, node in job.jobs.items()}
    files[PIPELINE] = document
    write_files(folder, files)
    _write_if_any(folder / REFERENCE, f"{reference or ''}\n".encode())
    _write_if_any(folder / plan_file.NAME, _dump_plan(job))
    _write_if_any(folder / PYTHON, _find_place(job))
    return folder / PIPELINE


def write_files(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write YAML files by their names in a folder, copy the folders among them, and return the folder.

    Raises:
        OutputError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ignore_in_git(WRITTEN.parent)
        for name, content in files.items():
            if isinstance(content, Path):
                shutil.copytree(content, folder / name, dirs_exist_ok=True)
            else:
                text = yaml_dump.dump(content, paragraphs="jobs").encode()
                write_whole(folder / name, text, follow=False, flush=False)
    except OSError as error:
        raise OutputError(f"cannot write `{folder}`: {error.strerror}", "make the folder writable") from error
    return folder


def _write_if_any(path: Path, content: bytes | None) -> None:
    """Write a file, or remove that of another job of this name."""
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_whole(path, content, follow=False, flush=False)


def _dump_plan(job: Any) -> bytes | None:
    """The plan of a job, from which what runs on fewer processes is planned again."""
    checked = find_planned(job)
    return (
        None
        if checked is None
        else plan_file.dump(checked.planned.complete_plan, checked.planned.templates, [PIPELINE])
    )


def _find_place(job: Any) -> bytes | None:
    """Which function of which file a job comes from, as far as the client knows it."""
    file = str(getattr(job.component, "_source_path", None) or "")
    is_python = file.endswith(".py") and Path(file).is_file()
    return f"{show_path(file)}:{job.component.name}\n".encode() if is_python else None


def _dump(job: Any) -> dict[str, Any]:
    """Return a job as azure-ai-ml writes it."""
    with tempfile.TemporaryDirectory() as scratch, quiet():
        path = Path(scratch) / PIPELINE
        try:
            job.dump(path)
        except Exception as error:
            text = str(error).strip().partition("\n")[0][:200]
            raise PipelineError(
                f"azure-ai-ml cannot write the pipeline: {type(error).__name__}: {text}",
                "call `job.dump` to see the whole message",
            ) from error
        document: dict[str, Any] = yaml.safe_load(untrusted.read_bytes(path))
    return document


def _write_node(node: Any, written: Mapping[str, Any], files: dict[str, Any]) -> dict[str, Any]:
    """Return one step as YAML; the client writes the component of every step in full."""
    entries = dict(written)
    if "inputs" in entries:
        entries["inputs"] = _write_inputs(entries["inputs"], node.inputs)
    _drop_anonymous_name(entries)
    for key in ("component", "trial"):
        if isinstance(entries.get(key), dict):
            entries[key] = _write_component(getattr(node, key), entries[key], files)
    return entries


def _write_inputs(inputs: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return bindings as their text, which is how people write them, and local data by its path."""
    written = {}
    for name, value in inputs.items():
        local = _find_local_path(values.get(name)) if isinstance(value, dict) else None
        if isinstance(value, dict) and _is_binding(value):
            written[name] = value["path"]
        elif local is not None and value.get("path") == f"azureml:{local}":
            # The client writes local paths as it does the names of assets. It uploads them from here.
            written[name] = {**value, "path": str(Path.cwd() / local)}
        else:
            written[name] = value
    return written


def _find_local_path(value: Any) -> str | None:
    """The path of an ``Input`` that is neither an address nor an asset."""
    from azure.ai.ml import Input

    data = getattr(value, "_data", None)
    path = str(data.path or "") if isinstance(data, Input) else ""
    elsewhere = "://" in path or path.startswith(("azureml:", "/subscriptions/"))
    return None if elsewhere else path or None


def _is_binding(value: Mapping[str, Any]) -> bool:
    return list(value) == ["path"] and str(value["path"]).startswith("${{")


def _write_component(component: Any, text: Mapping[str, Any], files: dict[str, Any]) -> Any:
    source = find_source(component)
    if source is not None and str(component.display_name).startswith(_EXPRESSION):
        # It lies in a temporary folder. The copy is beside the pipelines, which may share it.
        name = f"../expression-{hashlib.sha256(untrusted.read_bytes(source)).hexdigest()[:8]}"
        files[name] = source.parent
        return f"{name}/{source.name}"
    if source is not None:
        return str(source)
    written = dict(text)
    _drop_anonymous_name(written)
    if "additional_includes" in written:
        base = Path(component.base_path or Path.cwd())
        written["additional_includes"] = [str(base / include) for include in written["additional_includes"]]
    if "jobs" not in written:
        return written
    written["jobs"] = {
        name: _write_node(node, written["jobs"][name], files) for name, node in component.jobs.items()
    }
    written["inputs"] = _type_inputs(component, written)
    file = f"{component.name or 'pipeline'}-{len(files)}.yml"  # YAML has no place for a pipeline in a step
    files[file] = written
    return f"./{file}"


def _type_inputs(component: Any, written: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a pipeline in the pipeline; the client leaves out those without an annotation."""
    inputs = dict(written.get("inputs") or {})
    for name in component.inputs:
        for inner, node in component.jobs.items():
            arguments = written["jobs"][inner].get("inputs") or {}
            users = [key for key, value in arguments.items() if value == f"${{{{parent.inputs.{name}}}}}"]
            if users and name not in inputs:  # its type is that of the input it feeds
                inputs[name] = {"type": node.component.inputs[users[0]].type}
    return inputs


def find_source(component: Any) -> Path | None:
    """Return the YAML file that a component was loaded from, or None."""
    source = getattr(component, "_source_path", None)
    if source is None or Path(source).suffix not in (".yml", ".yaml") or not Path(source).is_file():
        return None
    return Path(source).resolve()


def _drop_anonymous_name(entries: dict[str, Any]) -> None:
    """Leave out the name and version that the client makes up for an environment without one."""
    environment = entries.get("environment")
    if isinstance(environment, dict) and environment.get("name") == _ANONYMOUS:
        left_out = ("name", "version")
        entries["environment"] = {key: value for key, value in environment.items() if key not in left_out}


def compile_job(job: Any, path: Path, report: Report, out: Path, name: str) -> Compiled:
    """Write a job as a folder.

    Args:
        job: The job, which may be planned.
        path: The pipeline that it was written as.
        report: The findings of its check.
        out: The folder.
        name: What people call the job.

    Raises:
        SpecError: The pipeline has errors, or names files that may not be copied. Nothing was written.
        OutputError: The folder holds what we did not write, or cannot be written. It is unchanged.
    """
    allowed = boundary.find_allowed(path)
    checking.refuse_incomplete(report)
    refused = report.errors or boundary.raise_to_errors(report.diagnostics, allowed)
    if refused:
        raise SpecError(list(refused), report.sources)
    output_folder.check_target(out)
    checked = find_planned(job)
    plan = checked.planned.complete_plan if checked is not None else Plan(path.parent.name, {})
    files = boundary.make_files(path)
    with checking.in_budget(path, report.sources):
        graph, problems = read_job(path, files)
        if graph is None or problems:
            raise make_spec_error(problems, report.sources)
        header = f"Compiled by worldsize from {name}: change that, not this file."
        templates = checked.planned.templates if checked is not None else {}
        contents, faults = lay_out_pipeline(graph, (plan, templates), files.gate, out, header)
        if faults := faults or boundary.report_refused(contents, allowed, Span(str(path), 1, 1, 1, 1)):
            raise make_spec_error(faults, report.sources)
    output_folder.write_folder(contents, out)
    return Compiled(out, tuple(contents), plan, report.diagnostics, report.sources, graph, None)

"""Reads job files (a pipeline, or a standalone job as a graph of one step) and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.azureml import component, fields, graph
from worldsize.azureml.files import Files
from worldsize.azureml.model import Field, Job
from worldsize.azureml.references import is_file, local_path
from worldsize.base.problem import Problem
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar


def read_job(path: str | Path, files: Files | None = None) -> tuple[Job | None, list[Problem]]:
    """Read a pipeline, command, sweep or parallel job with the components that it refers to.

    Returns:
        The job, None if the file is not a mapping or cannot be read, and the problems that this
        call found. A step whose component cannot be read stays in the graph without one.
    """
    files = files or Files()
    before = len(files.problems)
    path = Path(path)
    root = files.document(path).root
    job: Job | None = None
    if isinstance(root, Mapping):
        build = graph.read_graph if "jobs" in root else graph.read_single_job
        job = build(root, path, path.parent, files, component.resolve_component)
    elif root is not None:
        message = f"`{path.name}` is not a mapping, so it is not a job"
        files.problems.append(Problem("job-not-mapping", root.span, message, "start with `type: pipeline`"))
    return job, files.problems[before:]


class JobSchedule(Struct, frozen=True):
    """A schedule as written: values are neither converted nor checked."""

    path: Path
    raw: Mapping
    trigger: Mapping | None
    create_job: Node | None
    reference: Field[Any] | None  # the text that names the job
    target: Path | None  # the local file it names
    job: Job | None  # what that file holds
    inputs: Mapping | None  # what the schedule gives instead of the job's own inputs


def read_schedule(
    root: Mapping, path: Path, files: Files, allowed: Callable[[Path], bool]
) -> tuple[JobSchedule, list[Problem]]:
    """Read a schedule, and its job if that file is ``allowed``; with the problems of reading the job.

    One that imports data or monitors starts no job; its ``reference`` names the file of the import.
    """
    create_job = root.get("create_job")
    reference = fields.read_field(create_job, "job") if isinstance(create_job, Mapping) else None
    named = root.get("import_data") if create_job is None else create_job
    if isinstance(named, Scalar):
        reference = fields.read_node(named)
    text = reference.value if reference is not None else None
    target = local_path(text, path.parent) if isinstance(text, str) else None
    scheduled_job: Job | None = None
    problems: list[Problem] = []
    if target is not None and allowed(target) and is_file(target):
        scheduled_job, problems = read_job(target, files)
    schedule = JobSchedule(
        path=path,
        raw=root,
        trigger=fields.read_mapping(root, "trigger"),
        create_job=create_job,
        reference=reference,
        target=target,
        job=scheduled_job,
        inputs=fields.read_mapping(create_job, "inputs") if isinstance(create_job, Mapping) else None,
    )
    return schedule, problems


class Compute(Struct, frozen=True):
    """One cluster or instance; values as written. ``size`` is Azure's name of a VM size."""

    name: str
    path: Path
    size: Field[Any] | None = None
    max_instances: Field[Any] | None = None
    tier: Field[Any] | None = None  # dedicated | low_priority
    declared: bool = False  # described in worldsize.yml
    raw: Mapping | None = None  # the file of Azure ML that describes it


def read_compute(root: Mapping, path: Path) -> Compute | None:
    """Read a compute file; None if it has no name or is not a VM of Azure's catalogue (Kubernetes, Spark)."""
    name, kind = fields.read_text(root, "name"), (fields.read_text(root, "type") or "amlcompute").lower()
    if name is None or kind not in ("amlcompute", "computeinstance"):
        return None
    return Compute(name, path, raw=root, **fields.read_fields(root, "size", "max_instances", "tier"))


def read_declared(root: Node | None, path: Path) -> Iterator[Compute]:
    """Read the clusters that ``worldsize.yml`` describes."""
    block = root.get("compute") if isinstance(root, Mapping) else None
    if not isinstance(block, Mapping):
        return
    for key, node in block.items():
        if isinstance(node, Mapping):
            size = fields.read_field(node, "instance_type") or fields.read_field(node, "size")
            limits = fields.read_fields(node, "max_instances", "tier")
            yield Compute(key.text, path, size, declared=True, **limits)

"""Reading Azure ML's own schedules: the trigger, and the job that it starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.azureml import fields, job
from worldsize.azureml.files import Files
from worldsize.azureml.model import Field, Job
from worldsize.azureml.references import is_file, local_path
from worldsize.base.problem import Problem
from worldsize.yaml.nodes import Mapping, Node, Scalar


class JobSchedule(Struct, frozen=True):
    """A schedule as written; nothing is coerced or judged."""

    path: Path
    raw: Mapping
    trigger: Mapping | None
    create_job: Node | None
    reference: Field[Any] | None  # the text that names the job, wherever it stands
    target: Path | None  # the local file it names
    job: Job | None  # what that file holds
    inputs: Mapping | None  # what the schedule gives instead of the job's own inputs


def read_schedule(
    root: Mapping, path: Path, files: Files, allowed: Callable[[Path], bool]
) -> tuple[JobSchedule, list[Problem]]:
    """A schedule file.

    Args:
        root: The file's mapping.
        path: The file.
        files: What has been read before.
        allowed: Whether a file may be read.

    Returns:
        The schedule, and the problems met while its job was read.
    """
    made = root.get("create_job")
    reference = fields.read_field(made, "job") if isinstance(made, Mapping) else None
    if isinstance(made, Scalar):
        reference = fields.read_node(made)
    text = reference.value if reference is not None else None
    target = local_path(text, path.parent) if isinstance(text, str) else None
    found: Job | None = None
    problems: list[Problem] = []
    if target is not None and allowed(target) and is_file(target):
        found, problems = job.read_job(target, files)
    made_by = JobSchedule(
        path=path,
        raw=root,
        trigger=fields.read_mapping(root, "trigger"),
        create_job=made,
        reference=reference,
        target=target,
        job=found,
        inputs=fields.read_mapping(made, "inputs") if isinstance(made, Mapping) else None,
    )
    return made_by, problems

"""`worldsize.check`, `worldsize.plan` and `worldsize.run`, for files and for pipelines in Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldsize.checking import Report
    from worldsize.planning.model import Plan
    from worldsize.running import RunResult

WRITTEN = Path(".worldsize") / "pipelines"  # where pipelines in Python are written, one folder each
Target = Any  # a path, a reference `file.py:function`, or a pipeline job


def check(paths: Iterable[Target] | Target, **choice: Any) -> Report:
    """Check files, folders and pipelines in Python.

    Args:
        paths: As for :func:`worldsize.checking.check`; also ``"file.py:function"``, whose code runs, and
            pipeline jobs of azure-ai-ml. Both are written below ``.worldsize/pipelines``, and findings point
            into what was written.
        choice: The other arguments of :func:`worldsize.checking.check`.

    Raises:
        PipelineError: A pipeline in Python cannot be loaded.
        ValueError: As :func:`worldsize.checking.check`.
    """
    from worldsize import checking
    from worldsize.dsl.load import is_job

    several = not isinstance(paths, str | os.PathLike) and not is_job(paths)
    targets = list(paths) if several else [paths]
    return checking.check([find_file(target) for target in targets], **choice)


def run(target: Target, *arguments: Any, **more: Any) -> RunResult:
    """Run a spec, a job file or a pipeline in Python on this machine.

    Args:
        target: As for :func:`worldsize.running.run`; also ``"file.py:function"``, whose code runs, or a
            pipeline job of azure-ai-ml.
        arguments: As for :func:`worldsize.running.run`.
        more: As for :func:`worldsize.running.run`.

    Raises:
        PipelineError: The pipeline cannot be loaded.
        SpecError, RunError, OSError: As :func:`worldsize.running.run`.
    """
    from worldsize import running

    return running.run(find_file(target), *arguments, **more)


def plan(
    target: Target,
    *,
    instance_types: Mapping[str, str] | None = None,
    scale: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """Derive every number of a spec, or of a pipeline in Python, whose nodes then have them.

    Args:
        target: The path of a spec, or a pipeline job of azure-ai-ml.
        instance_types: For a job, see :func:`worldsize.dsl.plan.fill_plan`.
        scale: For a job, see :func:`worldsize.dsl.plan.fill_plan`.

    Raises:
        SpecError: The spec has errors, or the numbers of the job do not fit.
        PipelineError: ``scale`` or ``instance_types`` names what the job does not have.
    """
    from worldsize import api
    from worldsize.dsl.load import is_job

    if not is_job(target):
        return api.plan(target)
    from worldsize.dsl.plan import fill_plan

    return fill_plan(target, instance_types=instance_types or {}, scale=scale or {})


def find_file(target: Target) -> str | os.PathLike[str]:
    """Return the path of a target; a pipeline in Python is written first."""
    from worldsize.dsl import load

    if load.is_reference(target):
        file, _, function = target.rpartition(":")
        return _write(load.load_job(target), f"{Path(file).stem}-{function}")
    if load.is_job(target):
        return _write(target, str(target.name or target.display_name or "pipeline"))
    path: str | os.PathLike[str] = target
    return path


def _write(job: Any, name: str) -> Path:
    from worldsize.dsl.write import write_pipeline

    folder = "".join(character if character.isalnum() or character in "-_" else "-" for character in name)
    return write_pipeline(job, WRITTEN / folder)

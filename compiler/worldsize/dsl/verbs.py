"""`worldsize.check`, `plan` and `compile`, for files and for pipelines in Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worldsize.documents.errors import PipelineError
from worldsize.dsl import load

if TYPE_CHECKING:
    from worldsize.api import Compiled
    from worldsize.base.problem import Confidence
    from worldsize.checking import CheckedSpec, Report
    from worldsize.documents.diagnostics.diagnostic import Severity
    from worldsize.planning.estimates.measured_case import MeasuredRun
    from worldsize.planning.model import Plan
    from worldsize.remote.submit import SubmitOptions, Submitted
    from worldsize.running.model.results import View

_EXAMPLE = "`digits()` in place of `digits`"
Target = Any  # a path, a reference `file.py:function`, or a pipeline job


def check(
    paths: Iterable[Target] | Target,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    min_severity: Severity | None = None,
    min_confidence: Confidence = "possible",
    exclude: Sequence[str] = (),
    baseline: str | os.PathLike[str] | None = None,
    texts: Mapping[str, bytes] | None = None,
) -> Report:
    """Check files, folders and pipelines in Python.

    ``worldsize.yml`` of a file's project has further settings.

    Args:
        paths: Specs, Azure ML YAML files, or folders of them. Other files in a folder are skipped, and those
            that git ignores. Also ``"file.py:function"``, whose code runs, and pipeline jobs of azure-ai-ml:
            both are written below ``.worldsize/pipelines``, and findings point into the Python file. Of a
            job that :func:`plan` has planned, what the plan warns of is reported as well.
        select: Codes (``WS203``), beginnings of codes (``WS2``) or slugs; only these are reported.
        ignore: The same; these are not reported. Faults of worldsize itself always are.
        min_severity: Less severe findings are not reported.
        min_confidence: Less certain findings are not reported.
        exclude: Patterns as in ``.gitignore``, relative to the working folder; what they match is left out.
        baseline: A file with the findings that were known before, which are not reported.
        texts: Contents of files by path, which count instead of those on the disk.

    Returns:
        The report. Files that cannot be read are diagnostics in it.

    Raises:
        PipelineError: A pipeline in Python cannot be loaded.
        ValueError: A word of ``select`` or ``ignore`` is not a code, the beginning of one, or a slug; a
            folder holds more files than can be meant; or the baseline cannot be read.
    """
    from worldsize.checking import checker, python_places

    single = (
        isinstance(paths, str | os.PathLike) or load.is_of_client(paths) or not isinstance(paths, Iterable)
    )
    targets = [paths] if single else list(paths)
    report = checker.check(
        [file for target in targets for file in list_files(target)],
        select=select,
        ignore=ignore,
        min_severity=min_severity,
        min_confidence=min_confidence,
        exclude=exclude,
        baseline=baseline,
        texts=texts,
    )
    return python_places.point_report_into_python(report)


def submit(target: Target, options: SubmitOptions | None = None, *, view: View | None = None) -> Submitted:
    """Submit what :func:`run` takes, or a schedule, to a workspace in Azure, and follow the job to its end.

    A job that failed does not raise.

    Raises:
        PipelineError: The pipeline cannot be loaded.
        SpecError: The file has errors. Nothing was submitted; as with the next two.
        RunError: A setting names no input, or its value does not fit.
        RemoteError: The file cannot be submitted, or the workspace cannot be used.
    """
    from worldsize.remote import submit as submitting

    return submitting.submit(find_file(target), options or submitting.SubmitOptions(), view=view)


def plan(
    target: Target,
    *,
    instance_types: Mapping[str, str] | None = None,
    scale: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """Derive every number of a spec, or of a pipeline in Python, whose nodes then have them.

    Args:
        target: The path of a spec, or a pipeline job of azure-ai-ml; also ``"file.py:function"``, whose code
            runs, where the function plans its job.
        instance_types: Of a job, VM sizes by the names of its clusters, where ``worldsize.yml`` has none.
        scale: Of a job, by the names of nodes, what ``scale:`` of a spec has: ``reference``, ``rule`` …

    Raises:
        SpecError: The spec has errors, or the numbers of the job do not fit.
        PipelineError: ``scale`` or ``instance_types`` names what the job does not have.
    """
    from worldsize.checking import check_spec

    if load.is_reference(target):
        return read_planned(target).planned.complete_plan
    if isinstance(target, str | os.PathLike):
        return check_spec(Path(find_file(target))).planned.complete_plan
    from worldsize.dsl.plan import fill_plan

    job = load.require_job(target, "what is to be planned", _EXAMPLE)
    return fill_plan(job, instance_types=instance_types or {}, scale=scale or {})


def compile(  # noqa: A001
    target: Target,
    out: str | os.PathLike[str],
    *,
    text: str | None = None,
    runs: Sequence[MeasuredRun] = (),
) -> Compiled:
    """Compile a spec, or a pipeline in Python, into the folder ``out``.

    The folder appears whole or not at all; an earlier output of ours is replaced, anything else is
    refused. The same spec gives the same bytes on every machine and day.

    Args:
        target: The path of a spec; also ``"file.py:function"``, whose code runs, or a pipeline job of
            azure-ai-ml, of which components, code and planned numbers are copied into the folder.
        out: The folder.
        text: Of a spec, used instead of the file's content.
        runs: Of a spec, by which the speed is calibrated that trainers log as predicted.

    Raises:
        PipelineError: The pipeline cannot be loaded or written.
        SpecError: The spec or the pipeline has errors, or takes too long. Nothing was written.
        OutputError: The folder holds what we did not write, or cannot be written. It is unchanged.
        UnusableRunError: A run tells nothing of the step that it trained.
    """
    from worldsize import api
    from worldsize.documents import yaml

    if isinstance(target, str | os.PathLike) and not load.is_reference(target):
        spec = Path(find_file(target))
        api.require_path(spec, "worldsize.compile", "a spec")
        return api.compile(spec, out, None if text is None else yaml.load(spec, text), runs)
    if text is not None or runs:
        raise PipelineError(
            "`text` and `runs` are for specs, not for pipelines in Python", "leave them out of `compile`"
        )
    from worldsize.dsl.write import compile_job

    reference = target if isinstance(target, str) else None
    job = load.load_job(reference) if reference else load.require_job(target, "what is given", _EXAMPLE)
    written = list_written(job, reference)
    path = Path(written[0])
    name = reference or f"the pipeline `{path.parent.name}` in Python"
    return compile_job(job, path, check(written), Path(out), name)


def read_planned(reference: str) -> CheckedSpec:
    """What the function of a reference planned.

    Raises:
        PipelineError: The job cannot be loaded, or its function does not plan it.
        SpecError: The numbers do not fit.
    """
    checked = load.find_planned(load.load_job(reference))
    if checked is None:
        raise PipelineError(f"`{reference}` does not plan its job", load.suggest_planning(reference))
    return checked


def find_file(target: Target) -> str | os.PathLike[str]:
    """Return the path of a target; a pipeline in Python is written first.

    Raises:
        PipelineError: The target is not a path, and not a pipeline that can be loaded.
    """
    return list_files(target)[0]


def list_files(target: Target) -> list[str | os.PathLike[str]]:
    """The path of a target as :func:`find_file` returns it, and the spec that a job was planned as.

    The pipeline alone lacks what the plan was made from: the sizes of its clusters and the reference.

    Raises:
        PipelineError: As :func:`find_file`.
    """
    if load.is_reference(target):
        return list_written(load.load_job(target), target)
    if not isinstance(target, str | os.PathLike):
        return list_written(load.require_job(target, "what is given", _EXAMPLE), None)
    if Path(target).suffix == ".py" and Path(target).is_file():
        raise PipelineError(
            f"`{os.fspath(target)}` is a Python file, which may define several pipelines",
            load.suggest_functions(os.fspath(target)),
        )
    return [target]


def list_written(job: Any, reference: str | None) -> list[str | os.PathLike[str]]:
    """Write a job, which a reference names or nothing does, and return as :func:`list_files` does."""
    from worldsize.dsl.write import find_folder, write_pipeline

    stem, _, function = (reference or "").rpartition(".py")
    name = f"{Path(stem).name}-{function.lstrip(':')}" if reference else None
    pipeline = write_pipeline(job, find_folder(job, name), reference)
    checked = load.find_planned(job)
    spec = None if checked is None else checked.planned.spec.path
    return [pipeline] if spec is None or not spec.is_file() else [pipeline, spec]

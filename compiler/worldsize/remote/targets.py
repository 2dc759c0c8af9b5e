"""What is submitted: a job or schedule file as it is, or what a spec compiles to; checked before."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldsize import api, yaml
from worldsize.azureml import job as jobs
from worldsize.azureml.fields import read_member
from worldsize.azureml.model import Field, Job
from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.diagnostics.snippet import Sources
from worldsize.errors import SpecError
from worldsize.remote.errors import RemoteError
from worldsize.rules.context import Cluster
from worldsize.rules.launch import resolve_value
from worldsize.yaml.scalars import resolve_scalar

_NO_CLUSTER = frozenset({"serverless", "local", ""})
_NOT_JOBS = frozenset({"compute", "data", "environment", "settings"})


@dataclass(frozen=True, slots=True)
class Target:
    """A file for azure-ai-ml to load, and what is known of it."""

    path: Path
    is_schedule: bool
    job: Job | None  # what it starts; None where that is in the workspace already
    overrides: list[dict[str, Any]] = field(default_factory=list)  # for azure-ai-ml's loaders
    clusters: Mapping[str, Path | Cluster] = field(default_factory=dict)  # that can be created
    warnings: tuple[Diagnostic, ...] = ()
    sources: Sources = field(default_factory=dict)

    @property
    def compute_names(self) -> list[str]:
        """The clusters that the job names, without repetition."""
        return list(dict.fromkeys(_compute_names(self.job))) if self.job is not None else []


def load_target(path: Path, out: Path, settings: Mapping[str, str], *, schedule: bool = False) -> Target:
    """Check a file, and compile it if it is a spec.

    Args:
        path: A spec, a pipeline, a job, or a schedule.
        out: The folder that a spec is compiled into.
        settings: Values of inputs by name, as ``worldsize run --set`` takes them.
        schedule: Whether the schedule is meant, not its job.

    Raises:
        SpecError: The file has errors.
        RunError: A setting names no input, or its value does not fit.
        OutputError: The folder ``out`` cannot be written.
        RemoteError: The file is nothing that can be submitted.
    """
    from worldsize.checking import discover  # keeps the import of this module fast

    document = yaml.load(os.path.normpath(path))
    kind = discover.recognise_kind(document, named=True)
    if kind == "spec":
        return _compile(path, out, document, settings, schedule=schedule)
    if kind is None or kind in _NOT_JOBS or kind.endswith("-component"):
        what = "a pipeline, a job or a schedule"
        raise RemoteError(f"`{path}` is not a spec, {what}", "`worldsize submit` takes one of these")
    if schedule and kind != "schedule":
        help_ = f"write a schedule with `create_job: ./{path.name}`, and submit that file"
        raise RemoteError(f"`{path}` is a job without a schedule", help_)
    return _read_native(path, kind, document, settings)


def _compile(
    path: Path, out: Path, document: yaml.Document, settings: Mapping[str, str], *, schedule: bool
) -> Target:
    if settings:
        from worldsize.running.model.errors import RunError  # few submissions have settings
        from worldsize.running.prepare.spec_overrides import override_spec

        document, problems = override_spec(document, settings)
        if problems:
            raise RunError(problems)
    compiled = api.compile_document(path, out, document)
    if schedule and "schedule.yml" not in compiled.files:
        raise RemoteError(f"`{path}` has no schedule", 'add `schedule: {cron: "0 3 * * 1"}` to it')
    clusters = {
        Path(name).stem: compiled.folder / name for name in compiled.files if name.startswith("compute/")
    }
    file = compiled.folder / ("schedule.yml" if schedule else "pipeline.yml")
    return Target(file, schedule, compiled.job, [], clusters, compiled.warnings, compiled.sources)


def _read_native(path: Path, kind: str, document: yaml.Document, settings: Mapping[str, str]) -> Target:
    from worldsize.checking import boundary, checker, refuse_incomplete

    report, runs = checker.check_files([path])
    refuse_incomplete(report)
    if report.errors:
        raise SpecError(report.errors, report.sources)
    if outside := boundary.raise_to_errors(report.diagnostics, boundary.find_allowed(path)):
        raise SpecError(outside, report.sources)
    clusters = {name: cluster for run in runs for name, cluster in run.context.clusters.items()}
    job, overrides, files = None, [], boundary.make_files(path)
    if kind == "schedule":
        assert isinstance(document.root, yaml.Mapping)
        read, _ = jobs.read_schedule(document.root, path, files, lambda _: True)
        job = read.job
        if settings:
            raise RemoteError("`--set` is for a job", f"write the values under `create_job:` of `{path}`")
    else:
        job, _ = jobs.read_job(path, files)
        overrides = _make_overrides(job, document, settings) if job is not None else []
    return Target(
        path, kind == "schedule", job, overrides, dict(clusters), report.diagnostics, report.sources
    )


def _make_overrides(job: Job, document: yaml.Document, settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """The settings in azure-ai-ml's form, after they were checked against the inputs' types and ranges."""
    if not settings:
        return []
    from worldsize.running.model.errors import RunError  # few submissions have settings
    from worldsize.running.prepare.overrides import override_inputs

    short = {
        name.removeprefix("inputs.") if "inputs" not in job.steps else name: text
        for name, text in settings.items()
    }
    _, problems = override_inputs(job, short)
    if problems:
        raise RunError(problems)
    return [{_find_key(job, document, name): resolve_scalar(text)} for name, text in short.items()]


def _find_key(job: Job, document: yaml.Document, name: str) -> str:
    """The path of an input's value in the file: ``inputs.epochs``, ``jobs.train.inputs.data.path``."""
    step, _, port = name.partition(".")
    is_of_step = job.type == "pipeline" and step in job.steps and bool(port) and name not in job.inputs
    parts = ["jobs", step, "inputs", port] if is_of_step else ["inputs", *name.split(".")]
    node: yaml.Node | None = document.root
    for part in parts:
        node = node.get(part) if isinstance(node, yaml.Mapping) else None
    if isinstance(node, yaml.Mapping):
        parts.append("path" if "path" in node else "default" if "default" in node else "value")
    return ".".join(parts)


def _compute_names(job: Job) -> Iterator[str]:
    """The clusters of a job and of its inner pipelines."""
    chosen = [read_member(job.settings, "default_compute"), job.compute]
    chosen += [step.compute for step in job.steps.values()]
    for value in chosen:
        name = _cluster_name(job, value)
        if name is not None:
            yield name
    for step in job.steps.values():
        if step.component is not None and step.component.graph is not None:
            yield from _compute_names(step.component.graph)


def _cluster_name(job: Job, value: Field[Any] | None) -> str | None:
    text = resolve_value(value, job) if value is not None else None
    if not isinstance(text, str) or "${{" in text:
        return None
    name = text.removeprefix("azureml:").rpartition("/computes/")[2].rpartition("/virtualclusters/")[2]
    return None if name in _NO_CLUSTER or "/" in name else name

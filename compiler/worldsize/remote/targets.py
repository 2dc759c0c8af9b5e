"""What is submitted: a job or schedule file, or what a spec compiles to, checked with what is registered."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import job as jobs
from worldsize.azureml.fields import read_member
from worldsize.azureml.job import JobSchedule
from worldsize.azureml.launch import resolve_value
from worldsize.azureml.model import Cluster, Component, Data, Field, Job, Literal, Port, Step
from worldsize.checking import boundary, check_job, discover
from worldsize.checking.specs import check_by_rules
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.errors import SpecError
from worldsize.remote.errors import RemoteError
from worldsize.remote.rest import Rest
from worldsize.running.model.errors import RunError
from worldsize.running.model.folder import show_path
from worldsize.running.prepare.overrides import compile_spec, override_inputs, shorten_name, show_value

_NO_CLUSTER = frozenset({"serverless", "local", ""})
_NOT_JOBS = frozenset({"compute", "data", "environment", "settings"})


class Target(Struct, frozen=True):
    """A file for azure-ai-ml to load, and what is known of it."""

    path: Path
    is_schedule: bool
    job: Job | None  # what it starts; None where that is in the workspace already
    overrides: list[dict[str, Any]] = []  # for azure-ai-ml's loaders
    clusters: Mapping[str, Path | Cluster] = {}  # that can be created
    warnings: tuple[Diagnostic, ...] = ()
    sources: Sources = {}

    @property
    def compute_names(self) -> list[str]:
        """The clusters that the job names, without repetition."""
        return list(dict.fromkeys(_compute_names(self.job))) if self.job is not None else []


def load_target(
    path: Path,
    out: Path,
    settings: Mapping[str, str],
    *,
    schedule: bool = False,
    fill: Callable[[Job], Job] = lambda job: job,
) -> Target:
    """Check a file, and compile it if it is a spec.

    Args:
        path: A spec, a pipeline, a job, or a schedule.
        out: The folder that a spec is compiled into.
        settings: Values of inputs by name, as ``worldsize run --set`` takes them.
        schedule: Whether the schedule is meant, not its job.
        fill: Adds to a job what the components declare that only the workspace has.

    Raises:
        SpecError: The file has errors.
        RunError: A setting names no input, or its value does not fit.
        OutputError: The folder ``out`` cannot be written.
        RemoteError: The file is nothing that can be submitted.
    """
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
    return _read_native(path, kind, document, settings, fill)


def _compile(
    path: Path, out: Path, document: yaml.Document, settings: Mapping[str, str], *, schedule: bool
) -> Target:
    compiled = compile_spec(path, out, document, settings)
    if schedule and "schedule.yml" not in compiled.files:
        raise RemoteError(f"`{path}` has no schedule", 'add `schedule: {cron: "0 3 * * 1"}` to it')
    clusters = {
        Path(name).stem: compiled.folder / name for name in compiled.files if name.startswith("compute/")
    }
    file = compiled.folder / ("schedule.yml" if schedule else "pipeline.yml")
    return Target(file, schedule, compiled.job, [], clusters, compiled.warnings, compiled.sources)


def _read_native(
    path: Path, kind: str, document: yaml.Document, settings: Mapping[str, str], fill: Callable[[Job], Job]
) -> Target:
    checked = check_job(path, document)
    report, files = checked.report, boundary.make_files(path)  # what is submitted may lie beside the tree
    files.parsed = checked.tree.files.documents
    overrides: list[dict[str, Any]] = []
    if kind == "schedule":
        assert isinstance(document.root, yaml.Mapping)
        read, _ = jobs.read_schedule(document.root, path, files, lambda _: True)
        job = read.job
        if settings:
            raise _refuse_settings(read, settings)
    else:
        job, _ = jobs.read_job(path, files)
        if job is not None and settings:
            job, overrides = _override(fill(job), document, settings)
    clusters = dict(checked.tree.clusters)
    return Target(path, kind == "schedule", job, overrides, clusters, report.diagnostics, report.sources)


def _override(
    job: Job, document: yaml.Document, settings: Mapping[str, str]
) -> tuple[Job, list[dict[str, Any]]]:
    """The job with the settings, and these in azure-ai-ml's form; checked against the inputs' types."""
    short = {shorten_name(job, name): text for name, text in settings.items()}
    changed, problems = override_inputs(job, short)
    if problems:
        raise RunError(problems)
    return changed, [_make_override(changed, document, name) for name in short]


def _make_override(changed: Job, document: yaml.Document, name: str) -> dict[str, Any]:
    """The value by its path in the file: ``inputs.epochs``, ``jobs.train.inputs.data.path``."""
    step_name, _, port = name.partition(".")
    step = changed.steps.get(step_name) if changed.type == "pipeline" and name not in changed.inputs else None
    if step is not None:
        parts, argument = ["jobs", step_name, "inputs", port], step.inputs[port].value
    else:
        inputs = changed.inputs if name in changed.inputs else next(iter(changed.steps.values())).inputs
        parts, argument = ["inputs", *name.split(".")], inputs[name].value
    node: yaml.Node | None = document.root
    for part in parts:
        node = node.get(part) if isinstance(node, yaml.Mapping) else None
    key = ".".join(parts)
    if isinstance(argument, Data) and argument.path is not None:
        declared = (
            step.component.inputs.get(port) if step is not None and step.component is not None else None
        )
        override = {f"{key}.path": argument.path.value}
        if not isinstance(node, yaml.Mapping) and declared is not None:
            override[f"{key}.type"] = declared.type
        return override
    if isinstance(node, yaml.Mapping):
        key += ".default" if "default" in node else ".value"
    return {key: argument.value if isinstance(argument, Literal) else None}


def _refuse_settings(schedule: JobSchedule, settings: Mapping[str, str]) -> RemoteError:
    """``--set`` for a schedule; its file has the pipeline's inputs, the job's file those of steps."""
    name, text = next(iter(settings.items()))
    value, short = show_value(name, text), name.removeprefix("inputs.")
    step, _, port = name.partition(".")
    job, file = schedule.job, show_path(schedule.path)
    whose = show_path(schedule.target or schedule.path)
    if job is not None and port and step in job.steps and name not in job.inputs:
        help_ = f"write `{port}: {value}` under `inputs:` of step `{step}` in `{whose}`"
    elif job is not None and short not in job.inputs:
        help_ = f"the pipeline has no input `{short}`: write the values of its steps into `{whose}`"
    elif isinstance(schedule.create_job, yaml.Scalar):
        place = f"{{type: pipeline, job: {schedule.create_job.text}, inputs: {{{short}: {value}}}}}"
        help_ = f"write `create_job: {place}` in `{file}`"
    else:
        help_ = f"write `inputs: {{{short}: {value}}}` under `create_job:` of `{file}`"
    return RemoteError("`--set` is for a job", help_)


def _compute_names(job: Job) -> Iterator[str]:
    """The clusters of a job and of its inner pipelines."""
    chosen = [read_member(job.settings, "default_compute"), job.compute]
    chosen += [step.compute for step in job.steps.values()]
    names = (_cluster_name(job, value) for value in chosen if value is not None)
    yield from (name for name in names if name is not None)
    for step in job.steps.values():
        if step.component is not None and step.component.graph is not None:
            yield from _compute_names(step.component.graph)


def _cluster_name(job: Job, value: Field[Any]) -> str | None:
    text = resolve_value(value, job)
    if not isinstance(text, str) or "${{" in text:
        return None
    name = text.removeprefix("azureml:").rpartition("/computes/")[2].rpartition("/virtualclusters/")[2]
    return None if name in _NO_CLUSTER or "/" in name else name


_REFERENCE = re.compile(r"azureml:(?P<name>[\w.-]{1,255})(?::(?P<version>[\w.-]{1,255})|@latest)")
# What follows from the names of ports alone. Types and ranges come back as texts.
_SLUGS = ("input-unknown", "input-missing", "binding-unknown-output")
_Components = dict[str, Component | None]  # by reference


def check_registered(rest: Rest, target: Target) -> None:
    """Refuse a job that gives a registered component an input that it lacks, or leaves out a required one.

    What cannot be read is left to the service, as are components of registries.

    Raises:
        SpecError: There is such a step, or a binding to an output that such a step does not have.
    """
    if target.job is None:
        return
    jobs = _fill_jobs(rest, target.job, {})
    if findings := check_by_rules(jobs, _SLUGS, target.path.parent):
        raise SpecError(findings, target.sources)


def _fill_jobs(rest: Rest, job: Job, components: _Components) -> Iterator[Job]:
    """The job and the pipelines in it, those that name registered components with what these declare."""
    steps = {name: _fill_step(rest, step, components) for name, step in job.steps.items()}
    if any(map(_is_of_workspace, job.steps.values())):
        yield replace(job, steps=steps)
    for step in job.steps.values():
        if step.component is not None and step.component.graph is not None:
            yield from _fill_jobs(rest, step.component.graph, components)


def fill_components(rest: Rest, job: Job) -> Job:
    """The job with what the registered components that its steps name declare, where that can be read."""
    components: _Components = {}
    return replace(job, steps={name: _fill_step(rest, step, components) for name, step in job.steps.items()})


def _is_of_workspace(step: Step) -> bool:
    reference = step.reference.value if step.reference is not None else None
    return isinstance(reference, str) and _REFERENCE.fullmatch(reference) is not None


def _fill_step(rest: Rest, step: Step, components: _Components) -> Step:
    reference = step.reference.value if step.reference is not None else None
    if step.component is not None or not isinstance(reference, str):
        return step
    if reference not in components:
        components[reference] = _read_component(rest, reference)
    component = components[reference]
    return step if component is None else replace(step, component=component)


def _read_component(rest: Rest, reference: str) -> Component | None:
    """What a component declares; None if the workspace does not show it."""
    from azure.core.exceptions import HttpResponseError

    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    path = f"/components/{quote(match['name'])}/versions"
    try:
        if match["version"] is not None:
            document = rest.manage(f"{path}/{quote(match['version'])}")
        else:  # as the client looks up the label
            newest = rest.list(path, **{"$orderBy": "createdtime desc", "$top": "1"})
            document = next(iter(newest), {})
        spec = document["properties"]["componentSpec"]
        inputs, outputs = _parse_ports(spec.get("inputs")), _parse_ports(spec.get("outputs"))
        return Component(None, str(spec["type"]), None, None, inputs, outputs)
    except (HttpResponseError, KeyError, TypeError, AttributeError):
        return None


def _parse_ports(ports: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Port]:
    parsed = {}
    for name, port in (ports or {}).items():
        default = port.get("default")
        optional = str(port.get("optional")).lower() == "true"  # a text in the service's answers
        kept = None if default is None else Field(default)
        parsed[str(name)] = Port(str(name), str(port["type"]).lower(), optional=optional, default=kept)
    return parsed

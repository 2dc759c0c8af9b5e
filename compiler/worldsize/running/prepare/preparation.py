"""Prepares a target of the user to run here: reads the pipeline, fits it to the machine, lists its code."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from worldsize import api, checking
from worldsize.azureml import job as jobs
from worldsize.azureml import snapshot
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.files import Files
from worldsize.azureml.model import Job
from worldsize.azureml.references import classify
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.limits import Budgets, OverBudgetError, report_over_budget
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import boundary, discover
from worldsize.documents.secrecy.masking import Mask
from worldsize.documents.yaml import Mapping as YamlMapping
from worldsize.documents.yaml import Scalar, load
from worldsize.planning import plan_file
from worldsize.planning.model import Plan
from worldsize.running.environments.definition import EnvironmentPlan, plan_environments
from worldsize.running.launch.call import find_not_passed_on, find_overridden
from worldsize.running.launch.machine import (
    Machine,
    detect_machine,
    find_missing_packages,
    find_missing_programs,
    fit_devices,
    is_built_in,
    read_networks,
    read_vm_sizes,
    warn_of_nccl,
)
from worldsize.running.launch.redaction import make_mask
from worldsize.running.model.assets import find_references, read_asset_map
from worldsize.running.model.emulation import Emulate, Emulation
from worldsize.running.model.errors import RunError
from worldsize.running.model.options import EnvironmentMode, RunOptions
from worldsize.running.model.task import Graph, Task, Text
from worldsize.running.prepare.fit import Room, fit_tasks, reconstruct_plan
from worldsize.running.prepare.graph import kinds
from worldsize.running.prepare.graph.flatten import flatten
from worldsize.running.prepare.overrides import compile_spec, override_inputs

if TYPE_CHECKING:
    from worldsize.api import Compiled
    from worldsize.documents.yaml import Document


class Prepared(Struct, frozen=True):
    """A pipeline that can run here: read, fitted to the machine, its code listed."""

    target: Path  # the file that the user named
    options: RunOptions
    job: Job
    graph: Graph
    tasks: Mapping[str, Task]  # those of the graph, fitted to the machine
    code: Mapping[str, Snapshot]
    machine: Machine
    notices: tuple[str, ...]
    emulation: Emulation = field(default_factory=Emulation)
    environments: EnvironmentPlan = field(default_factory=EnvironmentPlan)
    restarts: Mapping[str, int] = field(default_factory=dict)  # of the steps whose spec sets them
    mask: Mask = field(default_factory=Mask)  # masks the secrets

    @property
    def title(self) -> str:
        """The name that the job shows; without one that of its experiment."""
        name = self.job.display_name
        return str(name.value) if name is not None and name.value else self.experiment

    @property
    def experiment(self) -> str:
        """The experiment's name; without one the name of the file."""
        name = self.job.experiment_name
        return str(name.value) if name is not None and name.value else self.target.stem


def prepare(
    target: Path,
    pipeline: Path,
    options: RunOptions = RunOptions(),
    *,
    track: bool = True,
    checked: bool = False,
    emulate: Emulate | None = None,
) -> Prepared:
    """Compile a spec, read the pipeline, and fit it to the machine; find every reason not to start.

    A spec is compiled to ``pipeline``. A job that was ``checked`` before is not checked again.
    """
    job_target = find_target(target, pipeline, options.settings, checked=checked)
    try:
        with Budgets().charge(str(target)):
            return _prepare_target(target, job_target, options, track=track, emulate=emulate)
    except OverBudgetError:
        raise RunError([report_over_budget(str(target))]) from None


def _prepare_target(
    target: Path, job_target: Target, options: RunOptions, *, track: bool, emulate: Emulate | None
) -> Prepared:
    path, settings = job_target.path, job_target.settings
    assets = read_asset_map(target, options.assets, job_target.parsed)
    files = boundary.make_files(path, assets.paths, [kinds.DRIVER], job_target.parsed)
    files.elsewhere = assets.local
    job, problems = job_target.read_job(files)
    documents = job_target.read_documents(files)
    texts = {document.path: document.source for document in documents} | dict(assets.sources)
    if job is None or problems:
        raise RunError(problems, texts)
    set_here = {text for text in settings.values() if classify(text) != "local"}
    named = find_references(document.root for document in documents) | set_here
    if unknown := assets.report_unnamed(named):
        raise RunError(unknown, texts)
    job, problems = override_inputs(job, settings)
    graph, more = flatten(job, assets)
    if problems := [*problems, *assets.problems, *more]:
        raise RunError(problems, texts)
    machine, reconstructed = detect_machine(), reconstruct_plan(graph.tasks)
    plan, templates = job_target.read_plan() or reconstructed
    room = Room(machine, options.processes, keep_instances=options.nodes == "namespaces")
    fitted = fit_tasks(graph.tasks, path, plan, templates, room)
    sizes = read_vm_sizes(graph.tasks, plan)
    tasks, device_notices = fit_devices(fitted.tasks, sizes, machine, assets.learned)
    device_notices += warn_of_nccl(job, (target.absolute().parent, path.absolute().parent), machine)
    code, problems = list_snapshots(tasks, files.gate)
    problems += find_missing_programs(job, tasks)
    emulates = emulate if emulate is not None and options.emulate_anything else _emulate_nothing
    emulation, impossible = emulates(options, tasks, read_networks(sizes))
    mode = options.environment or choose_mode(code, ours=target != path or bool(reconstructed[0].steps))
    if mode == "current":
        problems += find_missing_packages(tasks, code)
    environments = plan_environments(tasks, code, assets, mode, texts, gate=files.gate)
    untracked = _refuse_untracked_sweeps(graph, track=track)
    if problems := [*fitted.problems, *problems, *impossible, *untracked, *environments.problems]:
        raise RunError(problems, texts)
    return Prepared(
        target=target,
        options=options,
        job=job,
        graph=graph,
        tasks=tasks,
        code=code,
        machine=machine,
        notices=(
            *assets.notices,
            *graph.notices,
            *fitted.notices,
            *device_notices,
            *emulation.notices,
            *environments.notices,
            *_notice_variables(tasks),
        ),
        emulation=emulation,
        environments=environments,
        restarts=read_planned_restarts(plan),
        mask=make_mask(graph, options.settings),
    )


def _emulate_nothing(*_: object) -> tuple[Emulation, list[Problem]]:
    return Emulation(), []


def choose_mode(code: Mapping[str, Snapshot], *, ours: bool) -> EnvironmentMode:
    """Choose the environments by what the job says, so that they are the same here and in a local workspace.

    A job of ours, a spec or what it was compiled to, and built-in components need only our own packages:
    `current`.
    """
    return "current" if ours or (code and all(map(is_built_in, code.values()))) else "isolated"


def _refuse_untracked_sweeps(graph: Graph, *, track: bool) -> Iterator[Problem]:
    """Refuse sweeps that cannot read what their trials log."""
    why, help_ = "`--no-track` records nothing", "leave out `--no-track`"
    if track:
        why, help_ = "MLflow is not installed here", "run `pip install 'worldsize[run]'`"
    if track and importlib.util.find_spec("mlflow") is not None:
        return
    for name, plan in graph.sweeps.items():
        span = graph.tasks[name].span or Span("pipeline", 1, 1, 1, 1)
        message = f"sweep `{name}` reads `{plan.primary_metric}` of its trials from MLflow, and {why}"
        yield Problem("run-refused", span, message, help_)


def _notice_variables(tasks: Mapping[str, Task]) -> Iterator[str]:
    for task in tasks.values():
        for name in find_overridden(task):
            yield f"{task.name}: `{name}` of `environment_variables` has no effect: Azure ML sets it itself"
    for name in find_not_passed_on(tasks.values()):
        yield f"`{name}` is set in this shell; it is not passed on, because each process gets its own value"


def read_planned_restarts(plan: Plan) -> dict[str, int]:
    """The maximum of restarts of each step that its plan sets."""
    restarts = {name: step.inputs.get("max_restarts") for name, step in plan.steps.items()}
    return {name: count for name, count in restarts.items() if isinstance(count, int)}


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


def list_snapshots(tasks: Mapping[str, Task], gate: CopyAccess) -> tuple[dict[str, Snapshot], list[Problem]]:
    """List the code of every task, which is not copied yet, and its problems."""
    snapshots: dict[str, Snapshot] = {}
    problems: dict[Problem, None] = {}
    listed: dict[tuple[str, ...], Snapshot] = {}
    for name, task in tasks.items():
        code, includes = task.component.code, task.component.additional_includes
        key = (str(task.folder), repr(code and code.value), repr(includes and includes.value))
        if key not in listed:  # steps often share a folder, and listing a large one is slow
            listed[key], more = snapshot.read_snapshot(task.component, task.folder, gate)
            problems.update(dict.fromkeys(more))
        snapshots[name] = listed[key]
        problems.update(dict.fromkeys(refuse_unsafe_names(task)))
    return snapshots, list(problems)


def refuse_unsafe_names(task: Task) -> Iterator[Problem]:
    """Refuse names and texts of a task that no file, variable or process can have.

    ``check`` reports these too, but a comment in a file can suppress a check.
    """
    raw = task.component.raw
    at = raw.span if raw is not None else Span(str(task.component.path or task.folder), 1, 1, 1, 1)
    for kind, names in (("input", task.inputs), ("output", task.outputs)):
        for name in names:
            if _NAME.fullmatch(name) is None:
                message = f"step `{task.name}` has an {kind} `{name}`, which cannot be the name of a file"
                yield Problem("run-refused", at, message, "use letters, digits and underscores")
    for name in task.environment_variables:
        if not name or "=" in name or "\0" in name:
            message = f"step `{task.name}` sets a variable `{name}`, which is not a valid name of a variable"
            yield Problem("run-refused", at, message, "use letters, digits and underscores")
    for what, text in _texts(task):
        if "\0" in text:
            where = f"{what} of step `{task.name}`"
            message = f"{where} contains a NUL character, which cannot be passed to a process"
            yield Problem("run-refused", at, message, "remove the `\\0`")


def _texts(task: Task) -> Iterator[tuple[str, str]]:
    if task.component.command is not None:
        yield "the command", task.command
    for name, value in task.environment_variables.items():
        yield f"the variable `{name}`", value
    for name, source in task.inputs.items():
        if isinstance(source, Text):
            yield f"the input `{name}`", source.rendered


# Errors of the check that a run only mentions: a binding with text around it is joined, which the service
# may not do, and an input that the component does not have is ignored.
MENTIONED = frozenset({"WS612", "WS624"})

_RUN = "run a spec, a pipeline or a command, sweep or parallel job"


class Target(Struct, frozen=True):
    """The job to run."""

    path: Path  # the job file: what the user named, or what the spec was compiled to
    settings: Mapping[str, str]  # values for inputs, by name, that are still to be applied
    parsed: dict[Path, Document]  # files that were read already, by resolved path
    compiled: Compiled | None = None  # what the spec was compiled to; None where the user named a job

    def read_job(self, files: Files) -> tuple[Job | None, list[Problem]]:
        """The graph: the one that was just compiled from a spec, else the one in the file."""
        if self.compiled is None:
            files.parsed = self.parsed
            return jobs.read_job(self.path, files)
        before = len(files.problems)
        job = api.read_graph(self.compiled, files)
        return job, files.problems[before:]

    def read_plan(self) -> tuple[Plan, Mapping[str, Mapping[str, str]]] | None:
        """The plan and its templates: just derived, or from the pipeline's folder; None if there is none."""
        if self.compiled is None or self.compiled.planned is None:
            return plan_file.load(self.path.parent)
        return self.compiled.plan, self.compiled.planned.templates

    def read_documents(self, files: Files) -> list[Document]:
        """The YAML files behind the graph."""
        before = {} if self.compiled is None else self.parsed
        return list({**before, **files.documents}.values())


def find_target(target: Path, out: Path, settings: Mapping[str, str], *, checked: bool = False) -> Target:
    """Find the job to run: the target itself, checked, or what the spec compiles to in ``out``.

    A job is not checked again if it was ``checked`` before, by rules of the caller's choice.

    Raises:
        SpecError: The file has errors.
        RunError: It cannot be run.
    """
    document = load(os.path.normpath(target))  # under the name that a check gives it
    kind = discover.recognise_kind(document, named=True)
    root = document.root
    may_be_job = isinstance(root, YamlMapping) and not {"jobs", "command", "type"}.isdisjoint(root)
    if kind == "spec" or (kind is None and not may_be_job):
        compiled = compile_spec(target, out, document, settings)
        parsed = compiled.planned.files.documents if compiled.planned is not None else {}
        return Target(compiled.pipeline, {}, parsed, compiled)
    refused = _refuse_kind(kind, target, root)
    if refused is not None:
        raise RunError([Problem("run-refused", Span(str(target), 1, 1, 1, 1), *refused)])
    parsed = {Path(os.path.realpath(target)): document}
    if not checked:
        tolerated = checking.check_job(target, document, tolerate=lambda error: error.code in MENTIONED)
        parsed = tolerated.tree.files.documents
    return Target(target, settings, parsed)


def _refuse_kind(kind: str | None, target: Path, root: object) -> tuple[str, str] | None:
    """Message and help for a kind of file that cannot be run."""
    name, help_ = target.name, _RUN
    what = {"settings": "holds the settings of a project", "other": "is not something that runs"}.get(
        kind or ""
    )
    if kind is not None and kind.endswith("-component"):
        what = "is a component, which is run as a step of a pipeline"
        help_ = f"write a pipeline with a step that has `component: ./{name}`, and run that"
    elif kind == "schedule":
        what, help_ = "is a schedule", f"run the job that it starts{_scheduled_job(target, root)}"
    elif kind in ("compute", "data", "environment"):
        what = f"describes {'an' if kind == 'environment' else 'a'} {kind} and is not a job"
    type_ = root.get("type") if kind == "other" and isinstance(root, YamlMapping) else None
    if isinstance(type_, Scalar) and type_.text.lower() in kinds.UNSUPPORTED_KINDS:
        service_job, help_ = kinds.UNSUPPORTED_KINDS[type_.text.lower()]
        what = f"is {service_job}"
    return None if what is None else (f"`{name}` {what}", help_)


def _scheduled_job(target: Path, root: object) -> str:
    if not isinstance(root, YamlMapping):
        return ""
    read_schedule, _ = jobs.read_schedule(root, target, Files(), lambda _: False)
    return f": `worldsize run {read_schedule.target}`" if read_schedule.target is not None else ""

"""From what the user named to a pipeline that can run here: read, fitted to the machine, its code at hand."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.azureml.model import Job
from worldsize.azureml.references import classify
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.budget import Budgets, OverBudgetError, over_budget
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import boundary
from worldsize.running.environments import planning
from worldsize.running.errors import RunError
from worldsize.running.graph import Graph, flatten
from worldsize.running.nodes import emulation
from worldsize.running.nodes.emulation import Emulation
from worldsize.running.options import RunOptions
from worldsize.running.parallel.plan import DRIVER
from worldsize.running.preparing import (
    assets,
    devices,
    fit,
    machine,
    overrides,
    packages,
    programs,
    references,
    targets,
)
from worldsize.running.preparing.machine import Machine
from worldsize.running.preparing.targets import Target
from worldsize.running.recording import disclosure
from worldsize.running.recovering.restarts import planned as planned_restarts
from worldsize.running.starting import contract, workplace
from worldsize.running.tasks import Task
from worldsize.secrecy.masking import Mask


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pipeline that can run here: read, fitted to the machine, its code at hand."""

    target: Path  # what the user named
    options: RunOptions
    job: Job
    graph: Graph
    tasks: Mapping[str, Task]  # those of the graph, fitted to the machine
    code: Mapping[str, Snapshot]
    machine: Machine
    notices: tuple[str, ...]
    emulation: Emulation = field(default_factory=Emulation)
    environments: planning.Plan = field(default_factory=planning.Plan)
    restarts: Mapping[str, int] = field(default_factory=dict)  # of the steps whose spec says how many
    mask: Mask = field(default_factory=Mask)  # hides what was given as a secret

    @property
    def experiment(self) -> str:
        """The experiment's name; without one the name of the file."""
        name = self.job.experiment_name
        return str(name.value) if name is not None and name.value else self.target.stem


def prepare(
    target: Path, pipeline: Path, options: RunOptions = RunOptions(), *, track: bool = True
) -> Prepared:
    """Compile a spec, read the pipeline, fit it to the machine; find every reason not to start.

    Args:
        target: What the user named.
        pipeline: Where a spec is compiled to.
        options: How to run it.
        track: Whether MLflow records the run.
    """
    found = targets.find_target(target, pipeline, options.settings)
    try:
        with Budgets().charge(str(target)):
            return _read(target, found, options, track=track)
    except OverBudgetError:
        raise RunError([over_budget(str(target))]) from None


def _read(target: Path, found: Target, options: RunOptions, *, track: bool) -> Prepared:
    path, settings, compiled = found.path, found.settings, found.read_plan()
    plan = compiled[0] if compiled is not None else None
    known = assets.read(target, options.assets)
    files = boundary.files_of(path, known.paths, [DRIVER])
    files.elsewhere = known.local
    job, problems = found.read_job(files)
    documents = found.read_documents(files)
    texts = {document.path: document.source for document in documents} | dict(known.sources)
    if job is None or problems:
        raise RunError(problems, texts)
    named = references.elsewhere(document.root for document in documents)
    if unknown := known.unnamed(named | {text for text in settings.values() if classify(text) != "local"}):
        raise RunError(unknown, texts)
    job, problems = overrides.apply(job, settings)
    graph, more = flatten(job, known)
    problems += [*known.problems, *more]
    if problems:
        raise RunError(problems, texts)
    here = machine.detect()
    keep = options.nodes == "namespaces"
    fitted = fit.fit(graph.tasks, path, compiled, here, options.processes, keep_instances=keep)
    sizes = emulation.sizes(graph.tasks, plan)
    tasks, devices_said = devices.fit_devices(fitted.tasks, sizes, here)
    devices_said += devices.warn_of_nccl(job, (target.absolute().parent, path.absolute().parent), here)
    code, missing = workplace.snapshots(tasks, files.gate)
    missing += programs.missing(job, tasks)
    emulated, impossible = emulation.read(options, tasks, sizes)
    mode = planning.mode_of(options, target, path)
    if mode == "current":
        missing += packages.missing(tasks, code)
    surroundings = planning.plan(tasks, code, known, mode, texts, gate=files.gate)
    wrong = [*fitted.problems, *missing, *impossible, *_blind(graph, track=track), *surroundings.problems]
    if wrong:
        raise RunError(wrong, texts)
    said = (graph.notices, fitted.notices, devices_said, emulated.notices, surroundings.notices)
    notices = tuple(itertools.chain.from_iterable((*said, _overridden(tasks))))
    restarts = planned_restarts(plan)
    return Prepared(
        target,
        options,
        job,
        graph,
        tasks,
        code,
        here,
        notices,
        emulated,
        surroundings,
        restarts,
        disclosure.mask_of(graph, options.settings),
    )


def _blind(graph: Graph, *, track: bool) -> Iterator[Problem]:
    """Sweeps that could not read what their trials have logged."""
    why, help_ = "`--no-track` records nothing", "leave out `--no-track`"
    if track:
        why, help_ = "MLflow is not installed here", "run `pip install 'worldsize[run]'`"
    if track and importlib.util.find_spec("mlflow") is not None:
        return
    for name, plan in graph.sweeps.items():
        span = graph.tasks[name].span or Span("pipeline", 1, 1, 1, 1)
        message = f"sweep `{name}` reads `{plan.primary_metric}` of its trials from MLflow, and {why}"
        yield Problem("run-refused", span, message, help_)


def _overridden(found: Mapping[str, Task]) -> Iterator[str]:
    for task in found.values():
        for name in contract.overridden(task):
            yield f"{task.name}: `{name}` of `environment_variables` has no effect: Azure ML sets it itself"
    for name in contract.not_passed_on(found.values()):
        yield f"`{name}` is set where this was called; it is not passed on, because each process gets its own"

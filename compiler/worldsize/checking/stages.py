"""What is done with a file of each kind: which layers judge it, and what the rules get to see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from worldsize import yaml
from worldsize.base.span import Span
from worldsize.rules.context import Cluster

if TYPE_CHECKING:
    from worldsize.azureml.compute import Compute
    from worldsize.azureml.job import JobSchedule
    from worldsize.azureml.model import Component, Job
    from worldsize.base.problem import Problem
    from worldsize.checking.run import Run
    from worldsize.spec.model import ComputeProfile, Spec

Stage = Callable[["Run", yaml.Document], None]


def stage_of_kind(kind: str) -> Stage:
    """The stage for a kind of :func:`worldsize.checking.discover.kind_of`."""
    if kind == "spec":
        return _spec
    return _settings if kind == "settings" else partial(_native, kind=kind)


def _settings(run: Run, document: yaml.Document) -> None:
    """``worldsize.yml`` says things about other files; it was judged when they were gathered."""


def _spec(run: Run, document: yaml.Document) -> None:
    from worldsize import spec as spec_layer  # only files that are specs need the schema

    spec, problems = spec_layer.from_document(document, Path(document.path))
    run.problems += problems
    if spec is None:
        run.incomplete.add(document.path)
        return
    run.feed(spec, spec.span)
    if spec.schedule is not None:
        run.feed(spec.schedule, spec.schedule.span)
    _graph(run, spec)


def _graph(run: Run, spec: Spec) -> None:
    """Plan the spec and resolve its graph; rules see the graph as they see a native pipeline."""
    from worldsize.resolving.resolve import resolve_spec  # a broken spec has no graph

    resolved = resolve_spec(spec, run.context.files)
    run.resolved.append(resolved)
    run.problems += resolved.problems
    if resolved.plan is None:
        run.incomplete.add(str(spec.path))
    job = resolved.job
    run.context.placed[id(job)] = _profiles(spec)
    if resolved.plan is not None:
        run.context.plans[id(job)] = resolved.plan
    underived = {problem.span for problem in resolved.problems if problem.slug == "process-count-unknown"}
    for profile in spec.compute.values():
        if profile.instance_type is None or profile.instance_type.span not in underived:
            run.feed(_cluster(spec, profile), profile.span)
    _feed_job(run, job, spec.span)


def _cluster(spec: Spec, profile: ComputeProfile) -> Compute:
    """The cluster that a profile is compiled to, as its compute file would be read."""
    from worldsize.azureml.compute import Compute  # Azure ML's own files read it as well
    from worldsize.azureml.model import Field

    size, most, tier = (
        None if given is None else Field(given.value, given.span)
        for given in (profile.instance_type, profile.max_instances, profile.tier)
    )
    return Compute(profile.name, spec.path, size, most, tier)


def _profiles(spec: Spec) -> dict[str, Cluster]:
    """What the spec says of the cluster of each step."""
    found = {}
    for name, step in spec.steps.items():
        profile = spec.compute.get(step.compute.value) if step.compute else None
        if profile is not None:
            size, most, tier = profile.instance_type, profile.max_instances, profile.tier
            found[name] = Cluster(
                instance_type=size.value if size else None,
                max_instances=most.value if most else None,
                tier=tier.value if tier else None,
                size_span=size.span if size else None,
                max_span=most.span if most else None,
                tier_span=tier.span if tier else None,
            )
    return found


def _native(run: Run, document: yaml.Document, *, kind: str) -> None:
    from worldsize.azureml import component, job, shape  # only Azure ML's files need it

    if document.root is None:
        return
    at_start = _start_of(document.path)
    if kind in shape.CHECKED:
        run.problems += shape.check_shape(document.root, kind)
    if kind.endswith("-job"):
        graph, problems = job.read_job(document.path, run.context.files)
        run.problems += problems
        if graph is not None:
            _feed_job(run, graph, at_start)
    elif kind.endswith("-component"):
        interface, problems = component.read_component(document.path, run.context.files)
        run.problems += problems
        if interface is not None:
            _feed_component(run, interface, at_start)
    elif kind in ("compute", "schedule") and isinstance(document.root, yaml.Mapping):
        (_compute if kind == "compute" else _schedule)(run, document.root, Path(document.path))


def _compute(run: Run, root: yaml.Mapping, path: Path) -> None:
    from worldsize.azureml import compute  # few trees have such files

    found = compute.read_compute(root, path)
    if found is not None:
        run.context.describe(found)
        run.feed(found, root.span)


def _schedule(run: Run, root: yaml.Mapping, path: Path) -> None:
    """The job that a schedule starts is checked too, also where only the schedule was named."""
    from worldsize.azureml import job

    found, problems = job.read_schedule(root, path, run.context.files, run.context.inside)
    run.problems += problems
    run.problems += _times(found)
    run.feed(found, root.span)
    if found.job is not None and found.target is not None:
        run.referred.append((str(found.target), ""))


def _times(found: JobSchedule) -> Iterator[Problem]:
    """What is wrong with the times, by the rules that a spec's schedule is held to."""
    from worldsize.spec import schedule  # few trees have schedules

    if found.trigger is not None:
        yield from schedule.check_trigger(found.trigger)


def _feed_job(run: Run, job: Job, place: Span) -> None:
    """A graph, its steps and their components, whatever kind of file it was read from."""
    run.feed(job, place)
    for step in job.steps.values():
        at_step = step.span or place
        run.feed(step, at_step)
        component = step.component
        if component is not None and _is_checked(run, component.path):
            _feed_component(run, component, at_step)


def _is_checked(run: Run, path: Path | None) -> bool:
    """Whether a component is checked with the files that use it: a built-in one is where it is made."""
    return path is None or (run.context.inside(path) and not run.context.built_in(path))


def _feed_component(run: Run, component: Component, place: Span) -> None:
    """A component is fed once, however many steps use it; so is the graph inside a pipeline component."""
    if not run.first_time(component):
        return
    if component.path is not None:
        place = _start_of(component.path)
        run.referred.append((str(component.path), _kind(component)))
    run.feed(component, place)
    from worldsize.azureml import snapshot  # only a component has one

    assert component.folder is not None
    run.problems += snapshot.check_references(component, component.folder)
    run.problems += snapshot.check_uploads(component, component.folder, run.context.files)
    if component.graph is not None:
        _feed_job(run, component.graph, place)


def _kind(component: Component) -> str:
    """What a component's file is: its keys alone may be those of a job, too."""
    from worldsize.azureml import shape  # only Azure ML's files need it

    kind = f"{component.type.lower()}-component"
    return kind if kind in shape.CHECKED else ""


def _start_of(path: str | Path) -> Span:
    return Span(str(path), 1, 1, 1, 1)

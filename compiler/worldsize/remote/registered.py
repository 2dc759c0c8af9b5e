"""Checks steps against the components of the workspace that they name, which only the workspace can show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from worldsize.azureml.model import Component, Field, Job, Port, Step
from worldsize.base.problem import Problem
from worldsize.documents.diagnostics.diagnostic import sort_unique
from worldsize.documents.errors import SpecError
from worldsize.remote.errors import explain_errors
from worldsize.remote.names import WorkspaceNames
from worldsize.remote.rest import Rest
from worldsize.remote.targets import Target
from worldsize.rules import engine, registry
from worldsize.rules.context import Context

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
    known: _Components = {}
    context = Context(root=target.path.parent)
    problems = [each for job in _fill_jobs(rest, target.job, known) for each in _check(context, job)]
    if problems:
        raise SpecError(sort_unique(engine.diagnose(problems)), target.sources)


def _fill_jobs(rest: Rest, job: Job, known: _Components) -> Iterator[Job]:
    """The job and the pipelines in it, those that name registered components with what these declare."""
    steps = {name: _fill_step(rest, step, known) for name, step in job.steps.items()}
    if any(steps[name] is not step or _is_of_workspace(step) for name, step in job.steps.items()):
        yield replace(job, steps=steps)
    for step in job.steps.values():
        if step.component is not None and step.component.graph is not None:
            yield from _fill_jobs(rest, step.component.graph, known)


def make_filler(names: WorkspaceNames) -> Callable[[Job], Job]:
    """What gives a job the inputs of the registered components that it names, for ``--set``."""

    def fill(job: Job) -> Job:
        with explain_errors(names.shown):
            return fill_components(Rest(names), job)

    return fill


def fill_components(rest: Rest, job: Job) -> Job:
    """The job with what the registered components that its steps name declare, where that can be read."""
    known: _Components = {}
    return replace(job, steps={name: _fill_step(rest, step, known) for name, step in job.steps.items()})


def _is_of_workspace(step: Step) -> bool:
    reference = step.reference.value if step.reference is not None else None
    return isinstance(reference, str) and _REFERENCE.fullmatch(reference) is not None


def _fill_step(rest: Rest, step: Step, known: _Components) -> Step:
    reference = step.reference.value if step.reference is not None else None
    if step.component is not None or not isinstance(reference, str):
        return step
    if reference not in known:
        known[reference] = _read_component(rest, reference)
    component = known[reference]
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
            found = rest.manage(f"{path}/{quote(match['version'])}")
        else:  # as the client looks up the label
            newest = rest.list(path, **{"$orderBy": "createdtime desc", "$top": "1"})
            found = next(iter(newest), {})
        return _parse(found["properties"]["componentSpec"])
    except (HttpResponseError, KeyError, TypeError, AttributeError):
        return None


def _parse(spec: Mapping[str, Any]) -> Component:
    inputs, outputs = _parse_ports(spec.get("inputs")), _parse_ports(spec.get("outputs"))
    return Component(None, str(spec["type"]), None, None, inputs, outputs)


def _parse_ports(ports: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Port]:
    parsed = {}
    for name, port in (ports or {}).items():
        default = port.get("default")
        optional = str(port.get("optional")).lower() == "true"  # a text in the service's answers
        kept = None if default is None else Field(default)
        parsed[str(name)] = Port(str(name), str(port["type"]).lower(), optional=optional, default=kept)
    return parsed


def _check(context: Context, job: Job) -> Sequence[Problem]:
    """What is wrong with the steps that have ports from the workspace."""
    problems = []
    for slug in _SLUGS:
        rule = registry.find(slug)
        assert rule is not None
        for name, check in registry.load_checks(rule):
            if name == "Job":
                problems += [
                    each if isinstance(each, Problem) else each.under(slug) for each in check(context, job)
                ]
    return problems

"""Literals and the ports they are for: the values of steps, and the defaults of components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import literals
from worldsize.azureml.model import Binding, Component, Field, Job, Literal, Port, Step
from worldsize.base.problem import Problem, Related
from worldsize.resolving import components
from worldsize.rules.context import Context
from worldsize.rules.graph import _built_in
from worldsize.rules.graph._common import (
    LITERAL_TYPES,
    declared_component,
    find_arguments,
    span_of,
    text_node,
)


def check_job(context: Context, job: Job) -> Iterator[Problem]:
    """Check what the steps of a pipeline are given."""
    for step, name, field, port in find_arguments(job):
        if port.type in LITERAL_TYPES:
            for fault in _check_input(job, name, field, port):
                yield _name_other(context, step, name, field, fault)
    for step in job.steps.values():
        component = declared_component(step)
        if component is not None:
            yield from _built_in.check_function(step, component)
            yield from _built_in.check_data_set(context, step)


def _name_other(context: Context, step: Step, name: str, field: Field[Any], fault: Problem) -> Problem:
    """Name the built-in component that takes the value, where the one that was chosen does not."""
    if fault.slug != "input-not-in-enum":
        return fault
    if not context.is_built_in(step.component):
        return _as_warning(fault)
    value = literals.render_literal(field.value.value) if isinstance(field.value, Literal) else ""
    others = components.find_with_input(name, value)
    if not others or (fault.help or "").startswith("did"):
        return fault
    return replace(fault, help=f"{fault.help}, or use `{others[0]}`, which has `{value}`")


def _as_warning(fault: Problem) -> Problem:
    """The same for a component of another's making: the service is known to run values that `enum` lacks."""
    if fault.slug != "input-not-in-enum":
        return fault
    message = f"{fault.message}: the `enum` of the component does not list it"
    return replace(fault, slug="input-outside-enum", message=message.replace(" cannot be ", " is ", 1))


def _check_input(job: Job, name: str, field: Field[Any], port: Port) -> Iterator[Problem]:
    value = field.value
    source: Field[Any] | None = None
    if isinstance(value, Binding) and value.expression.scope == "parent.inputs" and job.interface is None:
        source = job.inputs.get(value.expression.port or "")
        value = source.value if source is not None else value
    if not isinstance(value, Literal) or not _judged(value.value):
        return
    node = text_node(field.node)
    fault = literals.check_value(name, value.value, port, node.span if node is not None else span_of(field))
    if fault is None:
        return
    if source is not None and source.span is not None:
        fault = replace(fault, related=(Related(source.span, "the pipeline's input is given here"),))
    yield fault


def _judged(value: Any) -> bool:
    """Whether a value can be judged now: not empty, not a group, without expressions inside."""
    if value is None or isinstance(value, (dict, list)):
        return False
    return not (isinstance(value, str) and "{" in value)


def check_component(context: Context, component: Component) -> Iterator[Problem]:
    """Check the defaults of a component's inputs."""
    for port in component.inputs.values():
        default = port.default
        if default is None or port.type not in LITERAL_TYPES or not _judged(default.value):
            continue
        fault = literals.check_value(port.name, default.value, port, span_of(default))
        if fault is not None:
            of_port = "of " if fault.message.startswith(f"`{port.name}`") else ""
            yield replace(_as_warning(fault), message=f"default {of_port}{fault.message}")

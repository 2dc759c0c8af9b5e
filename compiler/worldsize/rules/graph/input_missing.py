"""A required input has no value, no binding and no earlier output to take."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job, Step
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declared_component, is_native, known_ports, searched_inputs
from worldsize.yaml.nodes import Mapping


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    if not is_native(job):
        return
    for step in job.steps.values():
        component, names = declared_component(step), known_ports(step, "inputs")
        if component is None or names is None:
            continue
        groups = {name.split(".")[0] for name in (*step.inputs, *searched_inputs(step))}
        for name, port in names.items():
            if port.optional or port.default is not None or port.type == "open":
                continue
            if name not in step.inputs and name.split(".")[0] not in groups:
                kind = f"`{port.type}`"
                message = f"step `{step.name}` does not give input `{name}`, {kind}, which has no default"
                help_ = f"add `{name}:` under `inputs:` of the step"
                yield Finding(_place(step), message, help_)


def _place(step: Step) -> Span:
    if step.reference is not None and step.reference.span is not None:
        return step.reference.span
    assert isinstance(step.raw, Mapping)
    return step.span or step.raw.span

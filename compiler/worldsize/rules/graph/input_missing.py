"""A required input has no value, no binding and no matching earlier output."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.base.suggest import find_meant
from worldsize.rules.context import Context
from worldsize.rules.graph import _values
from worldsize.rules.graph._common import (
    NOWHERE,
    declared_component,
    known_ports,
    searched_inputs,
)


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    if job.type != "pipeline":
        return
    for step in job.steps.values():
        component, names = declared_component(step), known_ports(step, "inputs")
        if component is None or names is None:
            continue
        groups = {name.split(".")[0] for name in (*step.inputs, *searched_inputs(step))}
        missing = [
            port
            for name, port in names.items()
            if not (port.optional or port.default is not None or port.type == "open")
            and not (name in step.inputs or name in step.unwired or name.split(".")[0] in groups)
        ]
        unknown = [name for name in step.inputs if name not in names] if missing else []
        meant = {find_meant(name, names) for name in unknown}  # input-unknown says so
        for port in missing:
            if port.name not in meant:
                kind = literals.article(port.type)
                message = f"step `{step.name}` needs input `{port.name}`, {kind} without a default"
                help_ = f"add `{port.name}:` under `{job.keys.inputs}:` of the step"
                place = step.reference.span if step.reference is not None else step.span
                yield Finding(place or step.span or NOWHERE, message, help_)
        unread = _values.find_unread_data(context, step)
        if unread is not None and all(name in names for name in step.inputs):
            yield Finding(*unread)

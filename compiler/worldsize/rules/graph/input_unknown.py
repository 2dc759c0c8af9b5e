"""``with:`` gives an input that the component does not declare."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.base.suggest import did_you_mean
from worldsize.rules.context import Context
from worldsize.rules.graph._common import (
    declared_component,
    is_native,
    known_ports,
    port_finder,
    span_of,
    suggest_fix,
)


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    if not is_native(job):
        return
    for step in job.steps.values():
        component = declared_component(step)
        names = known_ports(step, "inputs")
        if component is None or names is None:
            continue
        has = port_finder(names)
        for name, field in step.inputs.items():
            if not has(name):
                of = f"`{component.path.name}`" if component.path else f"the component of step `{step.name}`"
                help_ = did_you_mean(name, names) or (
                    "remove it, or declare it there" if names else "it declares no inputs"
                )
                span = field.key_span or span_of(field)
                fix = suggest_fix(span, name, names)
                yield Finding(span, f"{of} has no input `{name}`", help_, fix=fix)

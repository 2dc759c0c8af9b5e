"""A step sets an input that its component does not declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from worldsize.azureml.model import Job, Port, Step
from worldsize.base.problem import Finding
from worldsize.base.suggest import did_you_mean, find_meant
from worldsize.resolving import components
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declared_component, find_unknown_names, known_ports


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    if job.type != "pipeline":
        return
    for step in job.steps.values():
        ports = known_ports(step, "inputs") if declared_component(step) is not None else None
        for name, span, fix in find_unknown_names(step.inputs, ports) if ports is not None else ():
            chosen = f"`{step.reference.value}`" if step.reference else f"the component of step `{step.name}`"
            help_ = _suggest(context, step, name, ports or {})
            yield Finding(span, f"{chosen} has no input `{name}`", help_, fix=fix)


def _suggest(context: Context, step: Step, name: str, ports: Mapping[str, Port]) -> str:
    """The input that was meant; else the built-in component that has it."""
    if find_meant(name, ports) is None and context.is_built_in(step.component):
        others = components.find_with_input(name)
        if others:
            return f"`{name}` is an input of {' or '.join(f'`{other}`' for other in others)}"
    return did_you_mean(name, ports) or (
        "remove it, or declare it there" if ports else "it declares no inputs"
    )

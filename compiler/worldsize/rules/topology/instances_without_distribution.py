"""A command asks for several instances but is not distributed."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.azureml.model import AZURE_ML
from worldsize.base.problem import Finding
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    count, component = launch.instances, launch.step.component
    if launch.step.type != "command" or component is None or component.type != "command":
        return
    block = launch.step.distribution or component.distribution
    if block is None and count.value is not None and count.value > 1 and count.span is not None:
        message = (
            f"`instance_count` is {count.value}, but without `distribution` the command runs on 1 of them"
        )
        yield Finding(count.span, message, _advise(context, launch))


def _advise(context: Context, launch: Launch) -> str:
    """What to write where: a step of a spec that uses a component has no `distribution` of its own."""
    add, step = "add `distribution: {type: pytorch}`", launch.step
    if launch.job.keys is not AZURE_ML and step.reference is not None:
        if context.is_built_in(step.component):
            return "remove `instance_count`: the component runs on one instance"
        add += " to the component"
    return f"{add}, or remove `instance_count`"

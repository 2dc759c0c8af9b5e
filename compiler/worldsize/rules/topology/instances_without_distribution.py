"""A command asks for several instances but is not distributed."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
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
        yield Finding(count.span, message, "add `distribution: {type: pytorch}`, or remove `instance_count`")

"""`max_instance_count` is below `instance_count`."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    limit, count = launch.max_instances, launch.instances
    if (
        limit.value is not None
        and limit.span is not None
        and count.value is not None
        and limit.value < count.value
    ):
        message = f"`max_instance_count` is {limit.value} but `instance_count` is {count.value}"
        related = (Related(count.span, "the instances to start with"),) if count.span else ()
        yield Finding(limit.span, message, f"write at least {count.value}, or remove it", related=related)

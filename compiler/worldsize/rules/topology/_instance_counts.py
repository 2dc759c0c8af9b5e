"""The instances of a step beside what its cluster has, what it may take at most, and its distribution."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.azureml.model import AZURE_ML
from worldsize.base.problem import Finding, relate
from worldsize.rules.context import Context


def check_instance_count_exceeds_max(context: Context, launch: Launch) -> Iterator[Finding]:
    count, cluster = launch.instances, launch.cluster
    if cluster is None or count.value is None or count.span is None:
        return
    limit = cluster.max_instances
    if limit is not None and limit > 0 and count.value > limit:
        message = f"`instance_count` is {count.value} but the cluster has `max_instances` {limit}"
        help_ = f"write at most {limit}, or raise `max_instances` to {count.value}"
        yield Finding(count.span, message, help_, relate(cluster.max_span, "the maximum of the cluster"))


def check_max_instances_below_count(context: Context, launch: Launch) -> Iterator[Finding]:
    limit, count = launch.max_instances, launch.instances
    if (
        limit.value is not None
        and limit.span is not None
        and count.value is not None
        and limit.value < count.value
    ):
        message = f"`max_instance_count` is {limit.value} but `instance_count` is {count.value}"
        related = relate(count.span, "the instances to start with")
        yield Finding(limit.span, message, f"write at least {count.value}, or remove it", related=related)


def check_instances_without_distribution(context: Context, launch: Launch) -> Iterator[Finding]:
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

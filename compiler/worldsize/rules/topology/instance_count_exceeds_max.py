"""A step asks for more instances than its cluster can have."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    count, cluster = launch.instances, launch.cluster
    if cluster is None or count.value is None or count.span is None:
        return
    limit = cluster.max_instances
    if limit is not None and limit > 0 and count.value > limit:
        message = f"`instance_count` is {count.value} but the cluster has `max_instances` {limit}"
        place = cluster.max_span
        related = (Related(place, "the maximum of the cluster"),) if place else ()
        help_ = f"write at most {limit}, or raise `max_instances` to {count.value}"
        yield Finding(count.span, message, help_, related=related)

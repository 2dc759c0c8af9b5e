"""A step asks for more instances than its cluster may have.

``max_instances`` of the profile bounds the cluster that compile writes.

Why: The job waits in the queue without end.

Bad::

    instance_count: 8

Good::

    instance_count: 4

Fix: Ask for fewer, or raise ``max_instances``.

Source: Microsoft Learn, CLI (v2) compute cluster (AmlCompute) YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS209",
    "instance-count-exceeds-max",
    "error",
    since="0.1.0",
    summary="more instances than the cluster may have",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        count, cluster = found.instances, found.cluster
        if not found.native or cluster is None or count.value is None or count.span is None:
            continue
        most = cluster.max_instances
        if most is not None and most > 0 and count.value > most:
            message = f"`instance_count` is {count.value} but the cluster has `max_instances` {most}"
            place = cluster.max_span
            related = (Related(place, "the most instances of the cluster"),) if place else ()
            help_ = f"write at most {most}, or raise `max_instances` to {count.value}"
            yield RULE.problem(count.span, message, help_, related=related)

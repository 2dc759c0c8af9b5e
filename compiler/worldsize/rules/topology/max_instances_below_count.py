"""`max_instance_count` is below `instance_count`.

The job may never have as many instances as it starts with.

Why: The job is refused, or runs with another world size than planned.

Bad::

    max_instance_count: 2

Good::

    max_instance_count: 4

Fix: Raise `max_instance_count`, or remove it.

Source: Microsoft Learn, CLI (v2) command job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS215",
    "max-instances-below-count",
    "error",
    since="0.1.0",
    summary="fewer instances at most than are asked for",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        most, count = found.most, found.instances
        if (
            most.value is not None
            and most.span is not None
            and count.value is not None
            and most.value < count.value
        ):
            message = f"`max_instance_count` is {most.value} but `instance_count` is {count.value}"
            related = (Related(count.span, "the instances to start with"),) if count.span else ()
            yield RULE.problem(
                most.span, message, f"write at least {count.value}, or remove it", related=related
            )

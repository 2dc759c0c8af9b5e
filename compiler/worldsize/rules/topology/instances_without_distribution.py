"""A command asks for several instances but is not distributed.

Without `distribution:` Azure ML starts the command once, on the first instance.

Why: The other instances are paid for and run nothing; the training reports success on one.

Bad::

    resources: {instance_count: 4}

Good::

    distribution: {type: pytorch, process_count_per_instance: 8}

Fix: Add `distribution:`, or remove `instance_count`.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS218",
    "instances-without-distribution",
    "warning",
    since="0.1.0",
    summary="several instances for a command that runs on one",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        count, component = found.instances, found.step.component
        if found.step.type != "command" or component is None or component.type != "command":
            continue
        block = found.step.distribution or component.distribution
        if block is None and count.value is not None and count.value > 1 and count.span is not None:
            message = (
                f"`instance_count` is {count.value}, but without `distribution` the command runs on 1 of them"
            )
            yield RULE.problem(
                count.span, message, "add `distribution: {type: pytorch}`, or remove `instance_count`"
            )

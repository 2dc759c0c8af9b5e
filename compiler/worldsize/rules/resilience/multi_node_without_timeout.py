"""A step on several GPU instances has no time limit.

Azure ML's command jobs run for as long as they like unless ``limits.timeout`` says otherwise. One rank
that hangs in a collective call makes all others wait for it.

Why: Every instance of the step is paid for until somebody looks.

Bad::

    instance_count: 4

Good::

    limits: {timeout: 43200}

Fix: Give the longest time that the step may take, in seconds (in a spec ``timeout:`` of the step).

Source: Microsoft Learn, CLI (v2) command job YAML schema, ``limits.timeout``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.distribution import member
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules import launch
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS720",
    "multi-node-without-timeout",
    "warning",
    since="0.1.0",
    summary="several GPU instances without a time limit",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        step, count = found.step, found.instances.value
        has_gpus = found.size is not None and found.size.gpus > 0  # CPU nodes cost little, and rarely hang
        if count is None or count < 2 or not has_gpus or member(step.limits, "timeout") is not None:
            continue
        if step.type != "command":
            continue  # a sweep has limits of its own
        what = "limits: {timeout: 43200}" if found.native else "timeout: 43200"
        message = f"{count} GPU instances run step `{step.name}` with no time limit"
        help_ = f"add `{what}` to the step: the longest that it may take, in seconds"
        yield RULE.problem(found.instances.span or found.at, message, help_)

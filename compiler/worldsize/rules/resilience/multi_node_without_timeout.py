"""A step on several GPU instances has no time limit."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.distribution import member
from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules import launch
from worldsize.rules.context import Context


def check_job(context: Context, job: Job) -> Iterator[Finding]:
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
        yield Finding(found.instances.span or found.at, message, help_)

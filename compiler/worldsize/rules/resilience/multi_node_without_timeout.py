"""A step on several GPU instances has no time limit."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.fields import read_member
from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    step, count = launch.step, launch.instances.value
    has_gpus = launch.size is not None and launch.size.gpus > 0  # CPU nodes cost little, and rarely hang
    if count is None or count < 2 or not has_gpus or read_member(step.limits, "timeout") is not None:
        return
    if step.type != "command":
        return  # a sweep has limits of its own
    message = f"{count} GPU instances run step `{step.name}` with no time limit"
    help_ = f"add {launch.job.keys.timeout} to the step: the longest that it may take, in seconds"
    yield Finding(launch.instances.span or launch.fallback_span, message, help_)

"""A tensor or pipeline degree does not divide the world size."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.launch import read_launches
from worldsize.rules.topology import _degrees


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        world, degrees = launch.world, _degrees.read_degrees(launch)
        if not launch.native or world is None or degrees is None or degrees.span is None:
            continue
        if world % degrees.product:
            instances, each = launch.instances.value, launch.processes.value
            message = (
                f"{degrees.shown} does not divide the world size {world} ({instances} × {each} processes)"
            )
            help_ = f"choose degrees whose product divides {world}, or start a multiple of {degrees.product}"
            yield Finding(degrees.span, message, help_)

"""Ranks that share each layer lie on several instances."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.launch import read_launches
from worldsize.rules.topology import _degrees


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for launch in read_launches(context, job):
        said, world = _degrees.read_degrees(launch), launch.world
        processes, instances = launch.processes.value, launch.instances.value
        if not launch.native or said is None or world is None or processes is None or instances is None:
            continue
        if said.span is None or world % said.product:
            continue
        from worldsize.planning import across  # noqa: PLC0415 - only a job with such a degree needs it

        if across.crosses(said.tensor, processes, instances) and not across.joined(launch.size):
            message = across.message(said.tensor, processes, launch.size)
            yield Finding(said.span, message, across.remedy(said.tensor, processes, world // said.pipeline))

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
        degrees, world = _degrees.read_degrees(launch), launch.world
        processes, instances = launch.processes.value, launch.instances.value
        if not launch.native or degrees is None or world is None or processes is None or instances is None:
            continue
        if degrees.span is None or world % degrees.product:
            continue
        from worldsize.planning import splits  # only a job with such a degree needs it

        if splits.crosses_instances(degrees.tensor, processes, instances) and not splits.has_spanning_link(
            launch.size
        ):
            message = splits.describe_slow_link(degrees.tensor, processes, launch.size)
            yield Finding(
                degrees.span,
                message,
                splits.suggest_tensor_degree(degrees.tensor, processes, world // degrees.pipeline),
            )

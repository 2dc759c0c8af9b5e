"""Fewer TensorFlow workers than instances."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Related
from worldsize.base.wording import plural
from worldsize.rules.context import Context


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    workers, instances, servers = launch.workers, launch.instances, launch.servers
    if launch.kind != "tensorflow" or workers.span is None:
        return
    if workers.value is None or instances.value is None or servers.value is None:
        return
    idle = instances.value - workers.value - servers.value
    if idle > 0:
        counts = f"`worker_count` is {workers.value} but `instance_count` is {instances.value}"
        message = f"{counts}: {plural(idle, 'instance')} would run nothing"
        related = (Related(instances.span, "instances of the job"),) if instances.span else ()
        yield Finding(
            workers.span, message, f"write `worker_count: {instances.value - servers.value}`", related=related
        )

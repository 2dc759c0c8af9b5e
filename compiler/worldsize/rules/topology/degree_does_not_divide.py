"""A tensor or pipeline degree does not divide the world size."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.shared import replicas


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    world, split = launch.world, replicas.read_degrees(launch)
    instances, processes = launch.instances, launch.processes.value
    if world is None or instances.value is None or processes is None or split is None:
        return
    if world % split.product == 0:
        return
    from worldsize.planning import degrees  # only a fault needs the words

    shown = degrees.show_degrees(split.tensor, split.pipeline)
    message = f"{shown} does not divide the world size {degrees.show_world_size(instances.value, processes)}"
    help_ = degrees.suggest_divisors(split.tensor, split.pipeline, world)
    related = (Related(instances.span, "instances"),) if instances.span else ()
    yield Finding(split.span, message, help_, related)

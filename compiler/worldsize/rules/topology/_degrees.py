"""Degrees of parallelism that do not divide the world size, or that span instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, relate
from worldsize.base.wording import plural
from worldsize.rules.context import Context
from worldsize.rules.shared import replicas

if TYPE_CHECKING:
    from worldsize.facts.vm_sizes import VmSize


def check_degree_does_not_divide(context: Context, launch: Launch) -> Iterator[Finding]:
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
    yield Finding(split.span, message, help_, relate(instances.span, "instances"))


def check_tensor_parallel_across_instances(context: Context, launch: Launch) -> Iterator[Finding]:
    split = replicas.read_degrees(launch)
    if split is not None and launch.world is not None and launch.world % split.product == 0:
        yield from _judge(launch, split, launch.world // split.pipeline)


def _judge(launch: Launch, split: replicas.Degrees, room: int) -> Iterator[Finding]:
    """Judge the tensor degree; ``room`` is the number of ranks that it shares with the data degree."""
    from worldsize.facts import vm_sizes  # only a job with such a degree needs these
    from worldsize.planning import degrees

    tensor, size, instances = split.tensor, launch.size, launch.instances
    processes = launch.processes.value or 1
    if not degrees.crosses_instances(tensor, processes, instances.value or 1):
        return
    if size is not None and vm_sizes.link_spans_instances(size):
        return
    message = f"the tensor degree {tensor} spans instances of {plural(processes, 'process')}"
    message += _speeds(size) or ": every layer waits for the network"
    fits = degrees.largest_common_divisor(tensor, processes, room)
    keep = f"write a tensor degree of {fits}" if fits > 1 else "leave the tensor degree at 1"
    help_ = f"{keep}, which stays inside an instance; data or pipeline parallelism may span them"
    yield Finding(split.span, message, help_, relate(instances.span, "instances"))


def _speeds(size: VmSize | None) -> str:
    """The bandwidth of a GPU inside and between instances, if known."""
    from worldsize.facts import vm_sizes

    if size is None or not size.devices:
        return ""
    inside, between = vm_sizes.intra_node_link(size), vm_sizes.inter_node_link(size)
    speeds = [f"{inside.shown()} inside an instance"] if inside is not None else []
    speeds += [f"{between.shown()} between instances"] if between is not None else []
    return f": a GPU has {', '.join(speeds)}" if speeds else ""

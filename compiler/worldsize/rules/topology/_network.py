"""The network between instances: InfiniBand that is off or lacking, and degrees that need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.launch import Launch
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, relate
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.rules.shared import replicas

if TYPE_CHECKING:
    from worldsize.facts.vm_sizes import VmSize


_NAME = "NCCL_IB_DISABLE"
_ON = ("1", "true", "True")


def check_infiniband_disabled(context: Tree, launch: Launch) -> Iterator[Finding]:
    size, count = launch.size, launch.instances.value
    if size is None or not size.rdma or not size.gpus or count is None or count < 2:
        return
    span = _set_at(launch)
    if span is not None:
        fast = f" instead of {size.ib_gbps_per_node:g} Gb/s InfiniBand" if size.ib_gbps_per_node else ""
        slow = f"{size.ethernet_gbps:g} Gb/s Ethernet" if size.ethernet_gbps else "Ethernet"
        message = f"`{_NAME}` makes {count} instances of `{size.name}` use {slow}{fast}"
        yield Finding(span, message, "remove it")


def _set_at(launch: Launch) -> Span | None:
    variables = launch.list_variables()
    return next((span for name, value, span, _ in variables if name == _NAME and value in _ON), None)


_ENOUGH = 10  # Gb/s a GPU


def check_instances_without_infiniband(context: Tree, launch: Launch) -> Iterator[Finding]:
    size, count = launch.size, launch.instances
    if launch.kind not in ("pytorch", "mpi", "tensorflow") or size is None or count.span is None:
        return
    if count.value is None or count.value < 2 or not _slow(size):
        return
    message = (
        f"{count.value} instances of `{size.name}` share gradients over {size.ethernet_gbps:g} Gb/s"
        f" Ethernet, {_of_each_gpu(size):g} Gb/s for each GPU: the size has no InfiniBand"
    )
    yield Finding(count.span, message, _faster(), related=relate(launch.size_span, "no InfiniBand"))


def _slow(size: VmSize) -> bool:
    is_set = (
        size.rdma is False and bool(size.gpus) and size.ethernet_gbps is not None and size.status != "retired"
    )
    return is_set and _of_each_gpu(size) < _ENOUGH


def _of_each_gpu(size: VmSize) -> float:
    return round((size.ethernet_gbps or 0) / size.gpus, 1)


def _faster() -> str:
    from worldsize.facts import vm_sizes  # only a fault reads the catalogue

    best = vm_sizes.lookup("Standard_ND96asr_v4")
    assert best is not None
    return (
        f"use one instance, a size with InfiniBand such as `{best.name}` ({best.ib_gbps_per_node:g} Gb/s),"
        f" or one with at least {_ENOUGH} Gb/s of Ethernet for each GPU"
    )


def check_degree_does_not_divide(context: Tree, launch: Launch) -> Iterator[Finding]:
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


def check_tensor_parallel_across_instances(context: Tree, launch: Launch) -> Iterator[Finding]:
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

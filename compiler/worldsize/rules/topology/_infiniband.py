"""The network between instances: InfiniBand that is turned off, or that the VM size lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, relate
from worldsize.base.span import Span
from worldsize.rules.context import Context

if TYPE_CHECKING:
    from worldsize.facts.vm_sizes import VmSize


_NAME = "NCCL_IB_DISABLE"
_ON = ("1", "true", "True")


def check_infiniband_disabled(context: Context, launch: Launch) -> Iterator[Finding]:
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


def check_instances_without_infiniband(context: Context, launch: Launch) -> Iterator[Finding]:
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

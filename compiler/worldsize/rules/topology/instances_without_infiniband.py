"""Several instances train together over slow Ethernet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context

if TYPE_CHECKING:
    from worldsize.facts.vm_sizes import VmSize


_ENOUGH = 10  # Gb/s a GPU


def check_launch(context: Context, launch: Launch) -> Iterator[Finding]:
    size, count = launch.size, launch.instances
    if launch.kind not in ("pytorch", "mpi", "tensorflow") or size is None or count.span is None:
        return
    if count.value is None or count.value < 2 or not _slow(size):
        return
    message = (
        f"{count.value} instances of `{size.name}` share gradients over {size.ethernet_gbps:g} Gb/s"
        f" Ethernet, {_of_each_gpu(size):g} Gb/s for each GPU: the size has no InfiniBand"
    )
    related = (Related(launch.size_span, "no InfiniBand"),) if launch.size_span else ()
    yield Finding(count.span, message, _faster(), related=related)


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

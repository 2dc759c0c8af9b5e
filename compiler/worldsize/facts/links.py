"""How fast a GPU reaches its neighbours: those of its own instance, and those of other instances."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from worldsize.facts import table
from worldsize.facts.vm_sizes import VmSize

# GPUs that NVLink joins across instances: 18 VMs of 4 in one rack (`vm_sizes.csv`, intra_node_link).
_RACK = "72-GPU domain"


class Link(Struct, frozen=True):
    """A link; ``gigabytes_per_s`` is one GPU's share, in one direction, at the vendor's peak."""

    name: str
    gigabytes_per_s: float

    def shown(self) -> str:
        """``50 GB/s by InfiniBand``."""
        return f"{self.gigabytes_per_s:.3g} GB/s by {self.name}"


def inside(size: VmSize) -> Link | None:
    """The link between the GPUs of one instance; None where it is not known.

    Where NVLink bridges join pairs of cards in a layout that is not documented, the bus between all counts.
    """
    if size.intra_node_gbps_per_gpu is not None:
        name = size.intra_node_link.partition(" (")[0]
        return Link(name, size.intra_node_gbps_per_gpu / 2 / 8)
    bus = _buses().get(size.gpu_model)
    return Link(bus["link"], float(bus["gbps_per_gpu"]) / 2 / 8) if bus is not None else None


def between(size: VmSize) -> Link | None:
    """The link between the GPUs of two instances, shared by the GPUs of each; None where it is not known."""
    if size.rdma and size.ib_gbps_per_gpu is not None:
        return Link("InfiniBand", size.ib_gbps_per_gpu / 8)
    if size.rdma is False and size.ethernet_gbps is not None:
        return Link("Ethernet", size.ethernet_gbps / max(size.devices, 1) / 8)
    return None


def spans_instances(size: VmSize) -> bool:
    """Whether the fast link of an instance goes on to its neighbours."""
    return _RACK in size.intra_node_link


@cache
def _buses() -> dict[str, dict[str, str]]:
    return {row["gpu_model"]: row for row in table.rows("gpu_links")}

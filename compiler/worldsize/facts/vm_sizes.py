"""Azure's VM sizes: GPUs, links, peak rates and retirements, from ``vm_sizes.csv``.

A project may describe sizes that the catalogue lacks; the functions take those as ``learned``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from worldsize.base.suggest import closest
from worldsize.facts import table

Status = Literal["current", "retiring", "retired"]
Capacity = Literal["", "no-growth", "no-new-capacity"]

# The date of the catalogue. Statuses are as of this date unless a caller gives another, so that
# a spec plans the same way on every day.
AS_OF = date(2026, 11, 21)
LEARNED = "worldsize.yml"  # the source of a size that a project describes


class VmSize(Struct, frozen=True, kw_only=True):
    """One size. None is "not found", never zero; units are in README.md beside the data."""

    name: str
    family: str = ""
    series: str = ""
    gpu_model: str = ""
    gpus: float  # Azure's own fractions for shared cards: 0.1667 is one sixth
    gpu_memory_gib: float | None = None  # per GPU
    vcpus: int | None = None
    ram_gib: float | None = None
    temp_disk_gib: float | None = None
    intra_node_link: str = ""
    intra_node_gbps_per_gpu: float | None = None
    rdma: bool | None = None
    ib_gbps_per_gpu: float | None = None
    ib_gbps_per_node: float | None = None
    ethernet_gbps: float | None = None
    peak_tflops_fp16_dense_per_gpu: float | None = None
    peak_tflops_bf16_dense_per_gpu: float | None = None
    peak_tflops_fp32_per_gpu: float | None = None
    gpu_memory_bandwidth_gigabytes_per_s: float | None = None
    status: Status = "current"  # as of AS_OF
    retirement_date: date | None = None
    capacity: Capacity = ""
    source: str

    @property
    def is_learned(self) -> bool:
        """Whether the project describes it, and not the catalogue."""
        return self.source == LEARNED

    @property
    def devices(self) -> int:
        """GPUs that a process sees: a sixth of a card is one device."""
        return math.ceil(self.gpus)

    @property
    def is_growth_restricted(self) -> bool:
        """Whether Azure no longer gives more of it to new subscriptions, or to anyone."""
        return self.capacity != ""


Learned = Mapping[str, VmSize]
"""The sizes that a project describes, by their names in small letters."""

NOT_LEARNED: Learned = MappingProxyType({})


def make_learned(name: str, gpus: int, vcpus: int | None = None, ram_gib: float | None = None) -> VmSize:
    """A size whose counts are known, but neither the model of its GPUs nor its network."""
    return VmSize(name=name, gpus=gpus, vcpus=vcpus, ram_gib=ram_gib, source=LEARNED)


def collect_learned(sizes: Iterable[VmSize]) -> Learned:
    """The sizes by name. Those in the catalogue are left out, because it knows more about them."""
    return {size.name.lower(): size for size in sizes if lookup(size.name) is None}


def lookup(name: str, learned: Learned = NOT_LEARNED) -> VmSize | None:
    """Find a size by its name in any case: in the catalogue, else among the learned; None in neither."""
    row = _rows().get(name.lower())
    return learned.get(name.lower()) if row is None else _size(row["name"])


def suggest(name: str, learned: Learned = NOT_LEARNED) -> str | None:
    """Find the size that is most similar to a mistyped name.

    ``Standard_`` is added if it is missing; among equally close names the first in the alphabet wins.
    """
    prefixed = name if name.lower().startswith("standard") else f"Standard_{name}"
    exact = lookup(prefixed, learned)
    return exact.name if exact else closest(prefixed, names(learned))


def names(learned: Learned = NOT_LEARNED) -> list[str]:
    """All names, as Azure writes them, in the order of the catalogue; then those that were learned."""
    return [row["name"] for row in _rows().values()] + [size.name for size in learned.values()]


@cache
def _rows() -> dict[str, dict[str, str]]:
    return {row["name"].lower(): row for row in table.read_rows("vm_sizes")}


@cache
def _size(name: str) -> VmSize:
    return table.convert_row(_rows()[name.lower()], VmSize)


# GPUs that NVLink joins across instances: 18 VMs of 4 in one rack (`vm_sizes.csv`, intra_node_link).
_RACK = "72-GPU domain"


class Link(Struct, frozen=True):
    """A link; ``gigabytes_per_s`` is one GPU's share, in one direction, at the vendor's peak."""

    name: str
    gigabytes_per_s: float

    def shown(self) -> str:
        """``50 GB/s by InfiniBand``."""
        return f"{self.gigabytes_per_s:.3g} GB/s by {self.name}"


def intra_node_link(size: VmSize) -> Link | None:
    """The link between the GPUs of one instance; None if it is unknown.

    If NVLink bridges connect pairs of cards in an undocumented layout, the bus that connects all cards
    counts.
    """
    if size.intra_node_gbps_per_gpu is not None:
        name = size.intra_node_link.partition(" (")[0]
        return Link(name, size.intra_node_gbps_per_gpu / 2 / 8)
    bus = table.index_rows("gpu_links", "gpu_model").get(size.gpu_model)
    return Link(bus["link"], float(bus["gbps_per_gpu"]) / 2 / 8) if bus is not None else None


def inter_node_link(size: VmSize) -> Link | None:
    """The link between two instances, as the share of one GPU; None if it is unknown."""
    if size.rdma and size.ib_gbps_per_gpu is not None:
        return Link("InfiniBand", size.ib_gbps_per_gpu / 8)
    if size.rdma is False and size.ethernet_gbps is not None:
        return Link("Ethernet", size.ethernet_gbps / max(size.devices, 1) / 8)
    return None


def link_spans_instances(size: VmSize) -> bool:
    """Whether the fast link inside an instance also connects it to its neighbours."""
    return _RACK in size.intra_node_link


# What a training can be bound by; more is better.
_AT_LEAST = (
    "gpu_memory_gib",
    "gpu_memory_bandwidth_gigabytes_per_s",
    "peak_tflops_fp16_dense_per_gpu",
    "peak_tflops_bf16_dense_per_gpu",
    "peak_tflops_fp32_per_gpu",
    "intra_node_gbps_per_gpu",
    "ib_gbps_per_gpu",
    "ib_gbps_per_node",
    "ethernet_gbps",
    "vcpus",
)
# Memory and disk of the host: published figures of one series differ by up to this part between pages.
_ABOUT = ("ram_gib", "temp_disk_gib")
_TOLERANCE = 0.06


def find_as_good(size: VmSize) -> list[VmSize]:
    """Current sizes of the catalogue with the same number of GPUs of the same kind that are as good.

    Each is at least as good in every quantity, the memory and disk of the host within 6 %. A quantity that is
    documented of only one of the two is not comparable, and such a size is left out. So are sizes that Azure
    gives to nobody new, and sizes without GPUs.
    """
    if not size.gpus:
        return []
    others = [other for name in names() if (other := lookup(name)) is not None]
    return [other for other in others if other.name != size.name and _is_as_good(other, size)]


def _is_as_good(other: VmSize, size: VmSize) -> bool:
    if other.status != "current" or other.is_growth_restricted or other.gpus != size.gpus:
        return False
    if _kind(other) != _kind(size) or bool(other.rdma) < bool(size.rdma):
        return False
    return all(_is_at_least(other, size, name, 1.0) for name in _AT_LEAST) and all(
        _is_at_least(other, size, name, 1 - _TOLERANCE) for name in _ABOUT
    )


def _is_at_least(other: VmSize, size: VmSize, name: str, part: float) -> bool:
    theirs, ours = getattr(other, name), getattr(size, name)
    if theirs is None or ours is None:
        return theirs is ours
    return bool(theirs >= part * ours)


def _kind(size: VmSize) -> tuple[str, bool, bool]:
    """What programs and owners rely on: the vendor, Arm processors (GB200, GB300), confidential memory."""
    model = size.gpu_model
    return model.partition(" ")[0], "GB200" in model or "GB300" in model, "confidential" in model


def explain_unknown_size(name: str, learned: Learned = NOT_LEARNED) -> tuple[str, str]:
    """The sentence and the help for a VM size that nobody describes."""
    near = suggest(name, learned)
    help_ = f"did you mean `{near}`?" if near else "`worldsize catalogue` lists those that are known"
    return f"`{name}` is not a VM size that Worldsize knows", help_

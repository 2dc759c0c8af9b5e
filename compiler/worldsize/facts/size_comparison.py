"""Which VM sizes are at least as good as another in everything that is documented of both."""

from __future__ import annotations

from worldsize.facts import vm_sizes
from worldsize.facts.vm_sizes import VmSize

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
    others = [other for name in vm_sizes.names() if (other := vm_sizes.lookup(name)) is not None]
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

"""The clusters that may be rented: VM sizes on sale whose GPUs are known, by numbers of instances."""

from __future__ import annotations

from collections.abc import Iterable

from worldsize.facts import cuda, vm_sizes
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.estimates.clusters import describe_cluster, find_gpu
from worldsize.planning.estimates.model import Cluster


def list_sizes() -> list[VmSize]:
    """Sizes on sale that run what runs on NVIDIA GPUs beside x86-64 processors, as most images do."""
    return [size for size in list_known_sizes() if _runs_common_images(size)]


def list_known_sizes() -> list[VmSize]:
    """Sizes with whole GPUs that Azure sells to anyone and whose GPUs the step-time model knows."""
    sizes = (vm_sizes.lookup(name) for name in vm_sizes.names())
    return [size for size in sizes if size is not None and is_usable(size)]


def is_usable(size: VmSize) -> bool:
    """Whether Azure sells a size to anyone, and the step-time model knows its GPUs, which are whole."""
    return size.status == "current" and not size.is_growth_restricted and find_gpu(size) is not None


def _runs_common_images(size: VmSize) -> bool:
    gpu = cuda.find_gpu(size.gpu_model)
    return gpu is not None and gpu.vendor == "NVIDIA" and gpu.processor == "x86-64"


def list_counts(most: int) -> list[int]:
    """Numbers of instances to try: 1, 2, 3, 4, 6, 8, 12, 16 … up to ``most``, and ``most`` itself."""
    counts, power = {most}, 1
    while power <= most:
        counts |= {power, min(power * 3 // 2, most)}
        power *= 2
    return sorted(counts)


def make_cluster(size: VmSize, count: int, input_samples_per_s: float | None = None) -> Cluster | None:
    """The cluster of ``count`` instances of a size; None if its GPU is unknown."""
    gpu = find_gpu(size)
    if gpu is None:
        return None
    return describe_cluster(
        gpu,
        size,
        gpus_per_instance=size.devices,
        instance_count=count,
        input_samples_per_s=input_samples_per_s,
    )


def list_clusters(
    sizes: Iterable[VmSize], most: int, input_samples_per_s: float | None = None
) -> list[Cluster]:
    """The clusters of every size and number of instances."""
    counts = list_counts(most)
    made = (make_cluster(size, count, input_samples_per_s) for size in sizes for count in counts)
    return [cluster for cluster in made if cluster is not None]

"""The cluster of a VM size: its GPUs, and the links that the catalogue states."""

from __future__ import annotations

from worldsize.facts import gpus, vm_sizes
from worldsize.facts.gpus import Gpu
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.estimates.model import Cluster


def find_gpu(size: VmSize) -> Gpu | None:
    """The GPU of a VM size, whose rates are known; None also for a size that has a share of one."""
    return gpus.lookup_model(size.gpu_model) if size.gpus == size.devices else None


def explain_no_gpu(size: VmSize) -> str:
    """Why the speed of a VM size without a :func:`find_gpu` is unknown."""
    return f"no speed is known of {size.gpu_model or 'the GPUs'} in `{size.name}`"


def describe_cluster(
    gpu: Gpu,
    size: VmSize | None,
    *,
    gpus_per_instance: int,
    instance_count: int,
    network_gbit: float | None = None,
    rdma: bool | None = None,
    input_samples_per_s: float | None = None,
) -> Cluster:
    """A cluster of a VM size; what is given overrides the catalogue. Rates that nobody states are None."""
    link = gpu.link_bytes_per_s
    if size is not None:
        stated = vm_sizes.intra_node_link(size)
        link = stated.gigabytes_per_s * 1e9 if stated is not None else link
        if rdma is None:
            rdma = size.rdma
        if network_gbit is None:
            network_gbit = size.ib_gbps_per_node if rdma else size.ethernet_gbps
    network = None if network_gbit is None else network_gbit / 8 * 1e9
    if size is not None and vm_sizes.link_spans_instances(size):
        network, rdma = link * gpus_per_instance, True
    return Cluster(
        gpu=gpu,
        gpus_per_instance=gpus_per_instance,
        instance_count=instance_count,
        link_bytes_per_s=link,
        network_bytes_per_s=network,
        rdma=rdma,
        instance_type=size.name if size is not None else None,
        input_samples_per_s=input_samples_per_s,
    )

"""Processes of one machine, which share its cores and exchange by TCP: what `worldsize run` starts here.

No data sheet says how fast a process computes a model, so that an estimate of them needs a calibration by a
run on the same machine. The nominal rates here only divide the time among products and memory.
"""

from __future__ import annotations

from msgspec.structs import replace

from worldsize.facts.gpus import Gpu
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Case, Cluster

ARCHITECTURE = "cpu"
_CORE_FLOPS = 5e10  # a second, nominal: two 256-bit fused multiply-adds a cycle at 1.6 GHz
_CORE_MEMORY = 1e10  # bytes a second, nominal
_FIRST_BUCKET = 2.0**20
_BUCKET = 25 * 2.0**20
_PAYLOAD = 1448 / 1514  # of an Ethernet frame that carries TCP over IPv4 with time stamps (RFC 894, RFC 7323)


def make_cluster(ranks: int, cores: int, link_bytes_per_s: float | None) -> Cluster:
    """``ranks`` instances of one process each, which share ``cores``; more ranks make each of them slower.

    ``link_bytes_per_s`` is the rate of each one's link, as ``--link`` of `worldsize run` shapes it.
    """
    share = cores / ranks
    process = Gpu(
        name="CPU",
        architecture=ARCHITECTURE,
        memory_bytes=0.0,
        peak_flops={"fp32": share * _CORE_FLOPS},
        memory_bytes_per_s=share * _CORE_MEMORY,
        link="none",
        link_bytes_per_s=0.0,
        source="nominal rates; the speed is measured",
    )
    return Cluster(process, 1, ranks, None, link_bytes_per_s, rdma=False)


def is_process(cluster: Cluster) -> bool:
    """Whether the ranks are processes of one machine."""
    return cluster.gpu.architecture == ARCHITECTURE


def adapt_constants(constants: Constants, case: Case) -> Constants:
    """The constants of processes: all but exchanges and what hides them is left to the measurement.

    No kernels are launched, and the instances are one machine, so that none straggles. FSDP and Horovod are
    taken to wait for each exchange: on processors both compute and exchange one after the other.
    """
    return replace(
        constants,
        matmul_share={ARCHITECTURE: 1.0},
        attention_share={ARCHITECTURE: 1.0},
        launch_seconds={ARCHITECTURE: 0.0},
        straggler_share={ARCHITECTURE: 0.0},
        precision_gain={},
        convolution_share={"fp32": 1.0, "tensor": 1.0},
        saturation_tokens=0.0,
        layer_touches=0.0,
        score_touches=0.0,
        head_touches=0.0,
        weight_touches=0.0,
        convolution_touches=dict.fromkeys(constants.convolution_touches, 0.0),
        exposed_share=1.0,
        exposed_share_replicated=_expose_buckets(case) if case.training.strategy == "ddp" else 1.0,
        tcp_share=_PAYLOAD,
        step_seconds=0.0,
    )


def _expose_buckets(case: Case) -> float:
    """Share of the gradients in the last bucket of DistributedDataParallel, which is full when all are there.

    The first bucket has 1 MiB, the others 25 MiB (PyTorch 2, ``bucket_cap_mb``). Weights of a layer are not
    divided, so that buckets are somewhat larger.
    """
    size = 4.0 * case.weights
    if size <= _FIRST_BUCKET:
        return 1.0
    return ((size - _FIRST_BUCKET) % _BUCKET or _BUCKET) / size

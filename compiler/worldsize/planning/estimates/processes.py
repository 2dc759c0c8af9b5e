"""Processes of one machine, which share its cores and exchange by TCP: what `worldsize run` starts here.

No data sheet says how fast a process computes a model, so that an estimate of them needs a calibration by a
run on the same machine. The nominal rates here only divide the time among products and memory.
"""

from __future__ import annotations

from msgspec.structs import replace

from worldsize.facts.gpus import Gpu
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Cluster

ARCHITECTURE = "cpu"
_CORE_FLOPS = 5e10  # a second, nominal: two 256-bit fused multiply-adds a cycle at 1.6 GHz
_CORE_MEMORY = 1e10  # bytes a second, nominal
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
        power_watts=0.0,
        source="nominal rates; the speed is measured",
    )
    return Cluster(process, 1, ranks, None, link_bytes_per_s, rdma=False)


def is_process(cluster: Cluster) -> bool:
    """Whether the ranks are processes of one machine."""
    return cluster.gpu.architecture == ARCHITECTURE


def adapt_constants(constants: Constants) -> Constants:
    """The constants of processes: all but what an exchange and its overlap are is left to the measurement.

    No kernels are launched, and the instances are one machine, so that none straggles. FSDP waits for each
    gather, and the gradients of a model smaller than a bucket of DistributedDataParallel (25 MB) leave after
    the backward pass, so that computation hides no exchange.
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
        exposed_share_replicated=1.0,
        tcp_share=_PAYLOAD,
        step_seconds=0.0,
    )

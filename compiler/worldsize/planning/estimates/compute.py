"""The seconds that a GPU takes for the operations of one micro-batch."""

from __future__ import annotations

from msgspec import Struct

from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Cluster, Training
from worldsize.planning.estimates.operations import Operations

_SHARPNESS = 4  # of the maximum of two times that overlap: close to the larger, rounded where they are equal


class ComputeTime(Struct, frozen=True):
    """Seconds of one micro-batch on one GPU."""

    arithmetic: float
    memory: float
    launch: float  # by which the host's launches of kernels exceed the GPU's work

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.arithmetic + self.memory + self.launch


def time_compute(
    operations: Operations, training: Training, cluster: Cluster, constants: Constants
) -> ComputeTime:
    """Time the arithmetic at its share of the peak, and what lies between at the memory's bandwidth."""
    gpu = cluster.gpu
    arithmetic = _time_arithmetic(operations, training, cluster, constants)
    memory = operations.bytes / (gpu.memory_bytes_per_s * constants.memory_share)
    busy = arithmetic + memory
    host = operations.layers / 3 * constants.pick(constants.launch_seconds, gpu.architecture)
    longest = (busy**_SHARPNESS + host**_SHARPNESS) ** (1 / _SHARPNESS)
    return ComputeTime(arithmetic, memory, longest - busy)


def _time_arithmetic(
    operations: Operations, training: Training, cluster: Cluster, constants: Constants
) -> float:
    gpu, precision = cluster.gpu, training.precision
    peak = gpu.peak_flops[precision]
    wide = peak if precision in ("fp32", "tf32") else gpu.peak_flops.get("bf16") or gpu.peak_flops["fp16"]
    share = constants.pick(constants.matmul_share, gpu.architecture)
    gain = constants.precision_gain.get(precision, 1.0)
    small = 1 + constants.saturation_tokens / max(operations.tokens, 1.0)
    seconds = small * operations.matmul_flops / (peak * share * gain)
    seconds += small * operations.head_flops / (wide * share * (gain if wide == peak else 1.0))
    attention = constants.pick(constants.attention_share, gpu.architecture)
    seconds += operations.attention_flops / (wide * attention)
    kind = "fp32" if precision == "fp32" else "tensor"
    return seconds + operations.convolution_flops / (peak * constants.convolution_share[kind])

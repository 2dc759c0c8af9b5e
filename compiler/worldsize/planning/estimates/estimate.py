"""The one function: from a workload, its training and a cluster to its speed, with an interval."""

from __future__ import annotations

from msgspec.structs import replace

from worldsize.planning.estimates import operations, traffic
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration
from worldsize.planning.estimates.constants import Constants, fitted
from worldsize.planning.estimates.interval import find_spread
from worldsize.planning.estimates.model import (
    Bound,
    Cluster,
    Estimate,
    StepTime,
    Training,
    Transformer,
    Workload,
)
from worldsize.planning.estimates.step_time import time_step


def estimate(
    workload: Workload,
    training: Training,
    cluster: Cluster,
    calibration: Calibration = NOT_CALIBRATED,
    constants: Constants | None = None,
) -> Estimate | None:
    """Estimate the speed of a training; None where a link between its GPUs is unknown.

    Raises KeyError if the GPU has no peak rate in the precision of the training.
    """
    used = constants or fitted()
    parts = time_step(workload, training, cluster, used, calibration)
    if parts is None:
        return None
    samples = training.micro_batch * training.accumulation * traffic.count_replicas(training, cluster)
    speed = samples / parts.seconds
    spread = find_spread(workload, training, cluster, parts, calibration)
    tokens = None
    if isinstance(workload, Transformer):
        each = workload.sequence_length / cluster.world_size
        tokens = spread.around(speed * each)
    peak = cluster.gpu.peak_flops[training.precision]
    return Estimate(
        samples_per_second=spread.around(speed),
        step_seconds=spread.around(parts.seconds),
        tokens_per_second_per_gpu=tokens,
        model_flops_utilisation=operations.model_flops(workload) * speed / cluster.world_size / peak,
        scaling_efficiency=_efficiency(workload, training, cluster, calibration, used, speed),
        bound=_find_bound(parts),
        parts=parts,
        basis=spread.basis,
    )


def _efficiency(
    workload: Workload,
    training: Training,
    cluster: Cluster,
    calibration: Calibration,
    constants: Constants,
    speed: float,
) -> float | None:
    """Speed over GPUs × the speed of one GPU, with the same micro-batch and accumulation."""
    alone = replace(cluster, gpus_per_instance=1, instance_count=1)
    whole = replace(training, tensor_parallel=1, pipeline_parallel=1)
    parts = time_step(workload, whole, alone, constants, calibration)
    if parts is None:
        return None
    return speed / (cluster.world_size * training.micro_batch * training.accumulation / parts.seconds)


def _find_bound(parts: StepTime) -> Bound:
    """What takes most of a step's time."""
    shares: dict[Bound, float] = {
        "compute": parts.compute + parts.bubble + parts.latency,
        "memory": parts.memory,
        "network": parts.communication,
        "input": parts.input,
    }
    return max(shares, key=lambda name: shares[name])

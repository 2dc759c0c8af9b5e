"""The one function: from a workload, its training and a cluster to its speed, with an interval."""

from __future__ import annotations

from msgspec.structs import replace

from worldsize.planning.estimates import operations, processes
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration, carry
from worldsize.planning.estimates.constants import Constants, fitted
from worldsize.planning.estimates.interval import find_spread
from worldsize.planning.estimates.model import (
    Bound,
    Case,
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

    The processes of one machine (``processes``) have a speed only by a calibration.

    Raises KeyError if the GPU has no peak rate in the precision of the training.
    """
    used, case = constants or fitted(), Case(workload, training, cluster)
    carried = carry(calibration, case)
    calibration = carried.calibration
    parts = time_step(case, used, calibration)
    if parts is None:
        return None
    speed = case.global_batch / parts.seconds
    spread = find_spread(case, parts, carried)
    tokens = None
    if isinstance(workload, Transformer):
        tokens = spread.around(speed * workload.sequence_length / cluster.world_size)
    alone = _time_alone(case, used, calibration)
    return Estimate(
        samples_per_second=spread.around(speed),
        step_seconds=spread.around(parts.seconds),
        tokens_per_second_per_gpu=tokens,
        model_flops_utilisation=_find_utilisation(case, speed),
        scaling_efficiency=None if alone is None else alone * speed / cluster.world_size,
        bound=_find_bound(parts),
        parts=parts,
        basis=spread.basis,
    )


def _find_utilisation(case: Case, speed: float) -> float | None:
    """Share of the peak rate that the FLOPs of the model take; None of processes, whose peak is nominal."""
    if processes.is_process(case.cluster):
        return None
    peak = case.cluster.gpu.peak_flops[case.training.precision]
    return operations.model_flops(case.workload) * speed / case.cluster.world_size / peak


def _time_alone(case: Case, constants: Constants, calibration: Calibration) -> float | None:
    """Seconds a sample on one GPU that has the whole model, with the same micro-batch and accumulation."""
    training = replace(case.training, tensor_parallel=1, pipeline_parallel=1)
    cluster = replace(case.cluster, gpus_per_instance=1, instance_count=1)
    alone = Case(case.workload, training, cluster)
    parts = time_step(alone, constants, calibration)
    return None if parts is None else parts.seconds / alone.global_batch


def _find_bound(parts: StepTime) -> Bound:
    """What takes most of a step's time."""
    shares: dict[Bound, float] = {
        "compute": parts.compute + parts.bubble,
        "memory": parts.memory,
        "network": parts.communication,
        "input": parts.input,
        "latency": parts.latency,
    }
    return max(shares, key=lambda name: shares[name])

"""The one function: from a workload, its training and a cluster to its speed, with an interval."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.wording import join_words
from worldsize.planning.estimates import operations, processes
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration, Carried, carry
from worldsize.planning.estimates.constants import RELATED, Constants, fitted
from worldsize.planning.estimates.model import Bound, Case, Cluster, Estimate, Interval, StepTime, Training
from worldsize.planning.estimates.step_time import time_step
from worldsize.spec.workload import Convolutional, Transformer, Workload


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
    shares: dict[Bound, float] = {
        "compute": parts.compute + parts.bubble,
        "memory": parts.memory,
        "network": parts.communication,
        "input": parts.input,
        "latency": parts.latency,
    }
    return max(shares, key=lambda name: shares[name])


# Natural logarithms of measured over estimated speed, within which four of five published speeds lie when
# their model size is left out of the fit (tests/benchmarks/scaling). Independent causes add as squares.
_TRANSFORMER = 0.15
_CONVOLUTIONAL = 0.25
_NO_ACTIVATIONS = 0.3  # a convolutional network whose activations are not given
_RELATED = 0.25  # constants of a related architecture
_NETWORK = 0.5  # of the share of time that exchanges take
_TCP = 0.3  # more of that share: TCP over Ethernet varies more than RDMA
_HOST = 0.5  # of the share of time that launches, stragglers and loops take: hosts differ
_CALIBRATED = 0.04  # steps of one run differ by that
_PER_DOUBLING = 0.1  # of the share of time that exchanges take, for each doubling of ranks or of the rate
_WIDEST = 2.0


class Spread(Struct, frozen=True):
    """Half the width of an interval, as a natural logarithm, and what it rests on."""

    half: float
    basis: str

    def around(self, expected: float) -> Interval:
        """The interval around an expected value."""
        factor = math.exp(self.half)
        return Interval(expected / factor, expected, expected * factor)


def find_spread(case: Case, parts: StepTime, carried: Carried) -> Spread:
    """The spread of an estimate, by what is known of its workload, its GPU and its network.

    A calibration narrows it, as far as its measurements agree and the case is like them.
    """
    exchanged = parts.communication / parts.seconds if parts.seconds else 0.0
    network = exchanged * (_NETWORK + (_TCP if case.cluster.rdma is False else 0.0))
    published = _spread_of_published(case, parts, network)
    if not carried.calibration.measured:
        return published
    half = _spread_of_measured(case, exchanged, network, carried)
    if half >= published.half and not processes.is_process(case.cluster):
        return Spread(published.half, f"{published.basis}; {_describe(case, carried)}")
    return Spread(min(half, _WIDEST), _describe(case, carried))


def _spread_of_published(case: Case, parts: StepTime, network: float) -> Spread:
    model = _CONVOLUTIONAL if isinstance(case.workload, Convolutional) else _TRANSFORMER
    if isinstance(case.workload, Convolutional) and case.workload.activation_bytes is None:
        model = math.hypot(model, _NO_ACTIVATIONS)
    host = _HOST * parts.latency / parts.seconds if parts.seconds else 0.0
    architecture = case.cluster.gpu.architecture
    related = _RELATED if architecture in RELATED else 0.0
    basis = "fitted on published speeds"
    if related:
        basis += f" of {RELATED[architecture]} GPUs"
    return Spread(math.sqrt(model**2 + related**2 + network**2 + host**2), basis)


def _spread_of_measured(case: Case, exchanged: float, network: float, carried: Carried) -> float:
    """The measurements' own deviation, what they did not measure, and how far the case is from them."""
    calibration = carried.calibration
    deviation = max(_CALIBRATED, calibration.residual, *(run.deviation for run in calibration.measured))
    if calibration.network_is_measured:
        network = exchanged * _PER_DOUBLING * _count_doublings(case, calibration)
    elif any(run.case.cluster == case.cluster for run in calibration.measured):
        network = 0.0  # the factor on the whole is that of the same cluster
    return math.hypot(deviation, network, carried.widening)


def _count_doublings(case: Case, calibration: Calibration) -> float:
    """How often ranks and the network's rate must double, up or down, from the nearest that was measured."""
    with_ranks = [run.case.cluster for run in calibration.measured if run.case.cluster.world_size > 1]
    return min(_compare_clusters(case.cluster, measured) for measured in with_ranks)


def _compare_clusters(cluster: Cluster, measured: Cluster) -> float:
    doublings = abs(math.log2(cluster.world_size / measured.world_size))
    rates = (cluster.network_bytes_per_s, measured.network_bytes_per_s)
    if cluster.instance_count > 1 and measured.instance_count > 1 and rates[0] and rates[1]:
        doublings += abs(math.log2(rates[0] / rates[1]))
    return doublings


def _describe(case: Case, carried: Carried) -> str:
    """What was measured, what was not, and how the case differs from it."""
    measured = carried.calibration.measured
    counts = sorted({run.case.cluster.world_size for run in measured})
    noun = "process" if processes.is_process(case.cluster) else "GPU"
    plural = {"process": "processes", "GPU": "GPUs"}[noun] if counts != [1] else noun
    runs = "1 run" if len(measured) == 1 else f"{len(measured)} runs"
    parts = [f"calibrated by {runs} on {join_words([str(count) for count in counts], 'and')} {plural}"]
    if case.cluster.world_size > 1 and not carried.calibration.network_is_measured:
        parts.append("exchanges not measured apart")
    elif case.cluster.world_size > counts[-1]:
        parts.append(f"extrapolated to {case.cluster.world_size}")
    return "; ".join((*parts, *carried.reasons))

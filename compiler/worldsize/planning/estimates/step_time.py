"""The seconds of one optimizer step: computation, exchanges that it does not hide, bubbles, waiting for data."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from worldsize.planning.estimates import collectives, compute, traffic
from worldsize.planning.estimates.calibration import Calibration
from worldsize.planning.estimates.compute import ComputeTime
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Cluster, StepTime, Training, Workload
from worldsize.planning.estimates.operations import BACKWARD, count_operations

# Bytes read and written for each weight that an optimizer updates: weight, gradient and moments in fp32,
# and the gradient that is cleared. LAMB reads the update again, for its norm.
_OPTIMIZER_BYTES = {"sgd": 20.0, "adam": 32.0, "adamw": 32.0, "lamb": 48.0}


class _Exposed(Struct, frozen=True):
    """Seconds of exchanges that no computation hides."""

    per_micro_batch: float
    per_step: float


def time_step(
    workload: Workload,
    training: Training,
    cluster: Cluster,
    constants: Constants,
    calibration: Calibration,
) -> StepTime | None:
    """The parts of one step; None where a link that it needs is unknown."""
    links = collectives.find_links(cluster, constants)
    if links is None:
        return None
    busy = _time_pass(workload, training, cluster, constants, calibration)
    straggling = busy.seconds * constants.of(constants.straggler_share, cluster.gpu.architecture)
    straggling *= collectives.expected_straggler(cluster.instance_count)
    moved = traffic.count_traffic(workload, training, cluster)
    exposed = _time_exchanges(
        moved, training, cluster, links, constants, calibration, busy.seconds + straggling
    )
    hops = collectives.count_hops(cluster) * constants.hop_seconds
    pass_latency = busy.launch + straggling + moved.collectives_per_micro_batch * hops
    one_pass = busy.seconds + straggling + exposed.per_micro_batch
    count = training.accumulation
    parts = StepTime(
        compute=count * busy.arithmetic,
        memory=count * busy.memory + _time_update(workload, training, cluster, constants, calibration),
        communication=count * exposed.per_micro_batch + exposed.per_step,
        # Each rank idles for one pass of every other stage (Huang et al. 2019, arXiv:1811.06965, section 2.3).
        bubble=(training.pipeline_parallel - 1) * one_pass,
        input=0.0,
        latency=count * pass_latency + moved.collectives_per_step * hops + constants.step_seconds,
    )
    return replace(parts, input=_wait_for_input(parts.seconds, training, cluster))


def _time_pass(
    workload: Workload, training: Training, cluster: Cluster, constants: Constants, calibration: Calibration
) -> ComputeTime:
    """One micro-batch on one GPU, with the unpacking of gathered weights."""
    operations = count_operations(workload, training, cluster, constants)
    seconds = compute.time_compute(operations, training, cluster, constants)
    unpacked = 0.0
    if traffic.is_sharded(training) and traffic.count_replicas(training, cluster) > 1:
        unpacked = constants.weight_touches * traffic.count_weights(workload, training)
        unpacked /= cluster.gpu.memory_bytes_per_s * constants.memory_share
    factor = calibration.compute
    return ComputeTime(
        seconds.arithmetic * factor, (seconds.memory + unpacked) * factor, seconds.launch * factor
    )


def _time_exchanges(
    moved: traffic.Traffic,
    training: Training,
    cluster: Cluster,
    links: collectives.Links,
    constants: Constants,
    calibration: Calibration,
    busy: float,
) -> _Exposed:
    """What exchanges add to the computation of ``busy`` seconds a micro-batch.

    Gathers are hidden behind all of it, gradients behind the backward pass of the last micro-batch. The
    activations of divided layers are waited for.
    """
    ranks = traffic.count_replicas(training, cluster)
    gathered = collectives.time_ring(moved.gathered_per_micro_batch, ranks, links.everywhere)
    reduced = collectives.time_ring(moved.gathered_per_step, ranks, links.everywhere)
    width = training.tensor_parallel
    crossing = width > cluster.gpus_per_instance
    divided = collectives.time_ring(
        moved.activations_per_micro_batch, width, links.everywhere if crossing else links.inside
    )
    backward = BACKWARD + constants.recomputed_share[training.recomputation]
    hidden = busy * backward / (1 + backward)
    factor = calibration.network
    return _Exposed(
        _expose(gathered * factor, busy, constants.exposed_share) + divided * factor,
        _expose(reduced * factor, hidden, constants.exposed_share_replicated),
    )


def _expose(exchange: float, hidden_by: float, share: float) -> float:
    """What remains of an exchange: a share that nothing hides, and what exceeds the computation beside it."""
    return share * exchange + max(0.0, (1 - share) * exchange - hidden_by)


def _time_update(
    workload: Workload, training: Training, cluster: Cluster, constants: Constants, calibration: Calibration
) -> float:
    """The optimizer's update of the weights that one rank keeps."""
    weights = traffic.count_weights(workload, training)
    if traffic.is_sharded(training) or training.strategy == "deepspeed":
        weights /= traffic.count_replicas(training, cluster)
    moved = _OPTIMIZER_BYTES.get(training.optimizer, _OPTIMIZER_BYTES["adamw"]) * weights
    return calibration.compute * moved / (cluster.gpu.memory_bytes_per_s * constants.memory_share)


def _wait_for_input(seconds: float, training: Training, cluster: Cluster) -> float:
    """Loaders read ahead, so that a step takes at least as long as its samples take to arrive."""
    if not cluster.input_samples_per_s:
        return 0.0
    samples = training.micro_batch * training.accumulation * traffic.count_replicas(training, cluster)
    return max(0.0, samples / (cluster.input_samples_per_s * cluster.instance_count) - seconds)

"""The seconds of one optimizer step: computation, exposed exchanges, bubbles, waiting for data."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from worldsize.planning.estimates import collectives, compute, traffic
from worldsize.planning.estimates.calibration import Calibration
from worldsize.planning.estimates.compute import ComputeTime
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Case, StepTime
from worldsize.planning.estimates.operations import BACKWARD, count_operations

# Bytes read and written for each weight that an optimizer updates: weight, gradient and moments in fp32,
# and the gradient that is cleared. LAMB reads the update again, for its norm.
_OPTIMIZER_BYTES = {"sgd": 20.0, "adam": 32.0, "adamw": 32.0, "lamb": 48.0}


class _Exposed(Struct, frozen=True):
    """Seconds of exchanges that no computation hides."""

    per_micro_batch: float
    per_step: float


def time_step(case: Case, constants: Constants, calibration: Calibration) -> StepTime | None:
    """The parts of one step; None where a link that it needs is unknown."""
    cluster, count = case.cluster, case.training.accumulation
    links = collectives.find_links(cluster, constants)
    if links is None:
        return None
    busy = _time_pass(case, constants, calibration)
    straggling = busy.seconds * constants.pick(constants.straggler_share, cluster.gpu.architecture)
    straggling *= collectives.expected_straggler(cluster.instance_count)
    moved = traffic.count_traffic(case)
    hidden_by = busy.seconds + straggling
    exposed = _time_exchanges(case, moved, links, constants, hidden_by)
    network = calibration.network
    hops = collectives.count_hops(cluster) * constants.hop_seconds
    latency = busy.launch + straggling + moved.collectives_per_micro_batch * hops
    one_pass = hidden_by + exposed.per_micro_batch * network
    parts = StepTime(
        compute=count * busy.arithmetic,
        memory=count * busy.memory + _time_update(case, constants) * calibration.compute,
        communication=(count * exposed.per_micro_batch + exposed.per_step) * network,
        # A rank idles for one pass of each other stage (Huang et al. 2019, arXiv:1811.06965, section 2.3).
        bubble=(case.training.pipeline_parallel - 1) * one_pass,
        input=0.0,
        latency=count * latency + moved.collectives_per_step * hops + constants.step_seconds,
    )
    return replace(parts, input=_wait_for_input(case, parts.seconds))


def _time_pass(case: Case, constants: Constants, calibration: Calibration) -> ComputeTime:
    """One micro-batch on one GPU, with the unpacking of gathered weights."""
    training, cluster = case.training, case.cluster
    operations = count_operations(case.workload, training, cluster, constants)
    seconds = compute.time_compute(operations, training, cluster, constants)
    unpacked = 0.0
    if traffic.is_sharded(training) and case.replicas > 1:
        unpacked = constants.weight_touches * case.weights
        unpacked /= cluster.gpu.memory_bytes_per_s * constants.memory_share
    factor = calibration.compute
    return ComputeTime(
        seconds.arithmetic * factor, (seconds.memory + unpacked) * factor, seconds.launch * factor
    )


def _time_exchanges(
    case: Case, moved: traffic.Traffic, links: collectives.Links, constants: Constants, busy: float
) -> _Exposed:
    """What exchanges add to the computation of ``busy`` seconds a micro-batch.

    Gathers are hidden behind all of it, gradients behind the backward pass of the last micro-batch. The
    activations of divided layers are waited for.
    """
    width = case.training.tensor_parallel
    inside = links.inside if width <= case.cluster.gpus_per_instance else links.everywhere
    gathered = collectives.time_ring(moved.gathered_per_micro_batch, case.replicas, links.everywhere)
    reduced = collectives.time_ring(moved.gathered_per_step, case.replicas, links.everywhere)
    divided = collectives.time_ring(moved.activations_per_micro_batch, width, inside)
    backward = BACKWARD + constants.recomputed_share[case.training.recomputation]
    hidden_by = busy * backward / (1 + backward)
    return _Exposed(
        _expose(gathered, busy, constants.exposed_share) + divided,
        _expose(reduced, hidden_by, constants.exposed_share_replicated),
    )


def _expose(exchange: float, hidden_by: float, share: float) -> float:
    """What remains of an exchange: a share that nothing hides, and what exceeds the computation beside it."""
    return share * exchange + max(0.0, (1 - share) * exchange - hidden_by)


def _time_update(case: Case, constants: Constants) -> float:
    """The optimizer's update of the weights that one rank keeps."""
    weights = case.weights
    if traffic.is_sharded(case.training) or case.training.strategy == "deepspeed":
        weights /= case.replicas
    moved = _OPTIMIZER_BYTES.get(case.training.optimizer, _OPTIMIZER_BYTES["adamw"]) * weights
    return moved / (case.cluster.gpu.memory_bytes_per_s * constants.memory_share)


def _wait_for_input(case: Case, seconds: float) -> float:
    """Loaders read ahead, so that a step takes at least as long as its samples take to arrive."""
    speed = case.cluster.input_samples_per_s
    return max(0.0, case.global_batch / (speed * case.cluster.instance_count) - seconds) if speed else 0.0

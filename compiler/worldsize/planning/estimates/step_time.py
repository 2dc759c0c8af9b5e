"""The seconds of one optimizer step: computation, exchanges over rings, bubbles, waiting for data."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from worldsize.planning.estimates import processes
from worldsize.planning.estimates.calibration import Calibration
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Case, Cluster, StepTime, Training
from worldsize.planning.estimates.operations import BACKWARD, ComputeTime, count_operations, time_compute
from worldsize.spec.workload import Transformer, Workload

# Bytes read and written for each weight that an optimizer updates: weight, gradient and moments in fp32,
# and the gradient that is cleared. LAMB reads the update again, for its norm.
_OPTIMIZER_BYTES = {"sgd": 20.0, "adam": 32.0, "adamw": 32.0, "lamb": 48.0}


class _Exposed(Struct, frozen=True):
    """Seconds of exchanges that no computation hides."""

    per_micro_batch: float
    per_step: float


def time_step(case: Case, constants: Constants, calibration: Calibration) -> StepTime | None:
    """The parts of one step; None where a link is unknown, or the speed of processes has not been measured.

    They are proportional to both factors of the calibration together, except where data is waited for.
    """
    cluster, count = case.cluster, case.training.accumulation
    if processes.is_process(cluster):
        constants = processes.adapt_constants(constants, case)
    links = find_links(cluster, constants)
    if links is None or (processes.is_process(cluster) and not calibration.measured):
        return None
    links = links.slow_down(calibration.network)
    busy = _time_pass(case, constants, calibration)
    straggling = busy.seconds * constants.pick(constants.straggler_share, cluster.gpu.architecture)
    straggling *= expected_straggler(cluster.instance_count)
    moved = count_traffic(case)
    hidden_by = busy.seconds + straggling
    exposed = _time_exchanges(case, moved, links, constants, hidden_by)
    hops = count_hops(cluster) * constants.hop_seconds * calibration.network
    latency = busy.launch + straggling + moved.collectives_per_micro_batch * hops
    one_pass = hidden_by + exposed.per_micro_batch
    parts = StepTime(
        compute=count * busy.arithmetic,
        memory=count * busy.memory + _time_update(case, constants) * calibration.compute,
        communication=count * exposed.per_micro_batch + exposed.per_step,
        # A rank idles for one pass of each other stage (Huang et al. 2019, arXiv:1811.06965, section 2.3).
        bubble=(case.training.pipeline_parallel - 1) * one_pass,
        input=0.0,
        latency=count * latency
        + moved.collectives_per_step * hops
        + constants.step_seconds * calibration.compute,
    )
    return replace(parts, input=_wait_for_input(case, parts.seconds))


def _time_pass(case: Case, constants: Constants, calibration: Calibration) -> ComputeTime:
    """One micro-batch on one GPU, with the unpacking of gathered weights."""
    training, cluster = case.training, case.cluster
    operations = count_operations(case.workload, training, cluster, constants)
    seconds = time_compute(operations, training, cluster, constants)
    unpacked = 0.0
    if is_sharded(training) and case.replicas > 1:
        unpacked = constants.weight_touches * case.weights
        unpacked /= cluster.gpu.memory_bytes_per_s * constants.memory_share
    factor = calibration.compute
    return ComputeTime(
        seconds.arithmetic * factor, (seconds.memory + unpacked) * factor, seconds.launch * factor
    )


def _time_exchanges(case: Case, moved: Traffic, links: Links, constants: Constants, busy: float) -> _Exposed:
    """What exchanges add to the computation of ``busy`` seconds a micro-batch.

    Gathers are hidden behind all of it, gradients behind the backward pass of the last micro-batch. The
    activations of divided layers are waited for.
    """
    width = case.training.tensor_parallel
    inside = links.inside if width <= case.cluster.gpus_per_instance else links.everywhere
    gathered = time_ring(moved.gathered_per_micro_batch, case.replicas, links.everywhere)
    reduced = time_ring(moved.gathered_per_step, case.replicas, links.everywhere)
    divided = time_ring(moved.activations_per_micro_batch, width, inside)
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
    weights = case.trained_weights
    if is_sharded(case.training) or case.training.strategy == "deepspeed":
        weights /= case.replicas
    moved = _OPTIMIZER_BYTES.get(case.training.optimizer, _OPTIMIZER_BYTES["adamw"]) * weights
    return moved / (case.cluster.gpu.memory_bytes_per_s * constants.memory_share)


def _wait_for_input(case: Case, seconds: float) -> float:
    """Loaders read ahead, so that a step takes at least as long as its samples take to arrive."""
    speed = case.cluster.input_samples_per_s
    return max(0.0, case.global_batch / (speed * case.cluster.instance_count) - seconds) if speed else 0.0


_BUCKETS = 10.0  # of gradients: some hundred MB in the 25 MB of DistributedDataParallel


class Traffic(Struct, frozen=True):
    """Bytes of one rank's buffers, before any algorithm divides them.

    An all-reduce counts twice: it is a reduce-scatter and an all-gather (Rajbhandari et al. 2020,
    arXiv:1910.02054, section 7).
    """

    gathered_per_micro_batch: float = 0.0  # weights gathered and gradients scattered with each micro-batch
    gathered_per_step: float = 0.0  # gradients, and weights of a sharded optimizer, once a step
    activations_per_micro_batch: float = 0.0  # of layers that tensor parallelism divides
    collectives_per_micro_batch: float = 0.0
    collectives_per_step: float = 0.0


def is_sharded(training: Training) -> bool:
    """Whether weights are gathered for each micro-batch."""
    return training.strategy == "fsdp" or (training.strategy == "deepspeed" and training.zero_stage == 3)


def count_traffic(case: Case) -> Traffic:
    """What one rank exchanges over data-parallel ranks, and inside a layer that is divided.

    Sharded weights are gathered for the forward and again for the backward pass (stage 2 keeps them), and
    their gradients are scattered, with every micro-batch (Zhao et al. 2023, arXiv:2304.11277). Replicas
    exchange gradients once a step, in fp32.
    """
    workload, training = case.workload, case.training
    layers = (workload.layers if isinstance(workload, Transformer) else 1) / training.pipeline_parallel
    per_micro = per_step = 0.0
    sharded = is_sharded(training)
    several = case.replicas > 1
    if several:
        per_micro, per_step = _data_parallel(training, case.weights, case.trained_weights)
    return Traffic(
        gathered_per_micro_batch=per_micro,
        gathered_per_step=per_step,
        activations_per_micro_batch=_tensor_parallel(workload, training),
        collectives_per_micro_batch=3.0 * layers if several and sharded else 0.0,
        collectives_per_step=_BUCKETS if several and not sharded else 0.0,
    )


def _data_parallel(training: Training, weights: float, trained: float) -> tuple[float, float]:
    """Bytes a micro-batch, bytes a step."""
    kept = training.number_bytes
    if is_sharded(training):
        gathers = 1 if training.strategy == "fsdp" and training.zero_stage == 2 else 2
        return weights * kept * gathers + trained * kept, 0.0
    if training.strategy == "deepspeed" and training.zero_stage == 2:
        return trained * kept, trained * kept
    gradient = kept if training.strategy == "deepspeed" else 4
    return 0.0, 2 * trained * gradient


def _tensor_parallel(workload: Workload, training: Training) -> float:
    """Two all-reduces of activations in each direction a layer (Shoeybi et al. 2019, arXiv:1909.08053)."""
    if training.tensor_parallel == 1 or not isinstance(workload, Transformer):
        return 0.0
    tokens = training.micro_batch * workload.sequence_length
    passes = 2 + (1 if training.recomputation == "full" else 0)
    layers = workload.layers / training.pipeline_parallel
    return 2 * 2 * passes * layers * tokens * workload.width * float(training.number_bytes)


class Links(Struct, frozen=True):
    """Bytes a second of one rank's buffer that a ring reaches."""

    inside: float  # an instance
    everywhere: float

    def slow_down(self, factor: float) -> Links:
        """The rates at which exchanges take ``factor`` times as long."""
        return Links(self.inside / factor, self.everywhere / factor)


def find_links(cluster: Cluster, constants: Constants) -> Links | None:
    """The rates of rings inside an instance and over all instances; None where a link is unknown.

    A ring over instances enters each of them once, so that its rate is that of an instance's whole network,
    or of the links inside where these are slower (NCCL makes a ring for each adapter).
    """
    inside = math.inf
    if cluster.gpus_per_instance > 1:
        if cluster.link_bytes_per_s is None:
            return None
        inside = cluster.link_bytes_per_s * constants.link_share
    if cluster.instance_count == 1:
        return Links(inside, inside)
    if cluster.network_bytes_per_s is None or cluster.rdma is None:
        return None
    share = constants.rdma_share if cluster.rdma else constants.tcp_share
    return Links(inside, min(inside, cluster.network_bytes_per_s * share))


def time_ring(size: float, ranks: float, bytes_per_s: float) -> float:
    """Seconds of an all-gather or a reduce-scatter of ``size`` bytes: (n − 1)/n of them pass each link.

    Source: Thakur et al. 2005, "Optimization of collective communication operations in MPICH", section 4.
    """
    return size * (ranks - 1) / ranks / bytes_per_s if ranks > 1 else 0.0


def count_hops(cluster: Cluster) -> float:
    """Doublings of instances: the steps of a tree over them."""
    return math.log2(cluster.instance_count)


def expected_straggler(count: int) -> float:
    """Standard deviations by which the slowest of ``count`` instances is behind the mean: √(2 ln n).

    The expected maximum of n normal numbers is at most that (Cramér 1946, section 28.6).
    """
    return math.sqrt(2 * math.log(count))

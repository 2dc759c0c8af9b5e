"""The bytes that ranks exchange: gradients, gathered weights, activations of divided layers."""

from __future__ import annotations

from msgspec import Struct

from worldsize.planning.estimates.model import Case, Training, Transformer, Workload

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
        per_micro, per_step = _data_parallel(training, case.weights)
    return Traffic(
        gathered_per_micro_batch=per_micro,
        gathered_per_step=per_step,
        activations_per_micro_batch=_tensor_parallel(workload, training),
        collectives_per_micro_batch=3.0 * layers if several and sharded else 0.0,
        collectives_per_step=_BUCKETS if several and not sharded else 0.0,
    )


def _data_parallel(training: Training, weights: float) -> tuple[float, float]:
    """Bytes a micro-batch, bytes a step."""
    kept = training.number_bytes
    if is_sharded(training):
        gathers = 1 if training.strategy == "fsdp" and training.zero_stage == 2 else 2
        return weights * kept * (gathers + 1), 0.0
    if training.strategy == "deepspeed" and training.zero_stage == 2:
        return weights * kept, weights * kept
    gradient = kept if training.strategy == "deepspeed" else 4
    return 0.0, 2 * weights * gradient


def _tensor_parallel(workload: Workload, training: Training) -> float:
    """Two all-reduces of activations in each direction a layer (Shoeybi et al. 2019, arXiv:1909.08053)."""
    if training.tensor_parallel == 1 or not isinstance(workload, Transformer):
        return 0.0
    tokens = training.micro_batch * workload.sequence_length
    passes = 2 + (1 if training.recomputation == "full" else 0)
    layers = workload.layers / training.pipeline_parallel
    return 2 * 2 * passes * layers * tokens * workload.width * float(training.number_bytes)

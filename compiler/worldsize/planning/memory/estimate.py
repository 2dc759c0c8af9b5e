"""Estimates the memory of one rank: states, activations, checkpoint copy and reserve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from worldsize.planning.memory import activations, division, states
from worldsize.planning.memory.network import Network, Part, Setup, gpu_constants
from worldsize.planning.memory.states import States

SHARES = ("parameters", "gradients", "optimizer", "activations", "buffers", "checkpoint", "reserve")


class Breakdown(Struct, frozen=True):
    """Bytes of the rank with the most, at the worst moment of an optimizer step."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    buffers: int
    checkpoint: int
    reserve: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(getattr(self, name) for name in SHARES)


@lru_cache(maxsize=8)  # many steps of a pipeline train the same model in the same way
def estimate(network: Network, setup: Setup) -> Breakdown | None:
    """The memory of the rank that needs most; None where the model cannot be divided so."""
    stages = division.split_stages(network, setup.pipeline)
    breakdowns = [estimate_stage(network, setup, parts, index) for index, parts in enumerate(stages)]
    return max(breakdowns, key=lambda breakdown: breakdown.total, default=None)


def estimate_stage(network: Network, setup: Setup, parts: tuple[Part, ...], index: int = 0) -> Breakdown:
    """The memory of a rank of pipeline stage ``index``, whose whole layers are ``parts``."""
    own = division.divide_parts(parts, setup.tensor)
    kept_states = states.rank_states(own, setup)
    # The batch that is used and the one that is read meanwhile; a pipeline takes all micro-batches at once.
    batches = setup.accumulation if setup.pipeline > 1 else 2
    samples = network.sample * setup.micro_batch * batches
    worst = activations.worst_moment(own, setup, kept_states, stage=index, counted=network.exact)
    needed = worst.activations + samples if network.exact else 0
    held = kept_states.parameters + worst.gradients + kept_states.optimizer + worst.buffers
    return Breakdown(
        parameters=kept_states.parameters,
        gradients=worst.gradients,
        optimizer=kept_states.optimizer,
        activations=needed,
        buffers=worst.buffers,
        checkpoint=checkpoint_bytes(own, setup, kept_states, needed),
        reserve=reserve_bytes(setup, held + needed),
    )


SLICED = ("fsdp", "tensor_parallel", "pipeline_parallel")  # every rank writes what it has


def checkpoint_bytes(parts: Sequence[Part], setup: Setup, kept_states: States, activations: int) -> int:
    """Bytes of the rank that writes, in the host's memory: of a process on CPUs, not of a GPU.

    The copy has the weights in fp32 and the moments, and its room is kept for the next checkpoint
    (``wstrain_torch.checkpoint``). Where ranks are alike, rank 0 copies all of it. ZeRO's slices are put
    together first, on rank 0, and copied then: for that moment there are two, but no activations.
    """
    if setup.gpu:
        return 0
    if setup.strategy in SLICED:
        return kept_states.parameters + kept_states.optimizer
    weights = [weight for part in parts for weight in part.weights]
    trained = sum(weight.count for weight in weights if weight.trained)
    copy = 4 * sum(weight.count for weight in weights) + 4 * setup.moments * trained
    return copy + (max(0, copy - activations) if setup.strategy == "deepspeed" else 0)


# Resident memory on a CPU, measured with torch 2.13 and MLflow 3.15 on Linux, x86-64, by training a model of
# a few thousand weights. Any rank: Python, torch with its kernels and threads, gloo. Only rank 0: MLflow with
# its client of a tracking server, and what torch.export and MLflow import to save a model.
TORCH = 412_000_000
TRACKING = 124_000_000
EXPORT = 43_000_000
DEEPSPEED = 41_000_000  # what it imports beside these; rank 0 with it had 620 MB


def reserve_bytes(setup: Setup, tensors: int) -> int:
    """Bytes of a process beside its ``tensors``: on a GPU, or of rank 0, which takes the most, on a host."""
    if setup.gpu:
        constants = setup.constants or gpu_constants()
        return int(constants.context_bytes + constants.allocator_share * tensors)
    return TORCH + TRACKING + EXPORT + (DEEPSPEED if setup.strategy == "deepspeed" else 0)

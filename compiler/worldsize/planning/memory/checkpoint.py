"""The copy of a training's state from which a checkpoint is written while the training goes on."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.planning.memory.network import Part
from worldsize.planning.memory.setup import Setup
from worldsize.planning.memory.states import States

SLICED = ("fsdp", "tensor_parallel", "pipeline_parallel")  # every rank writes what it has


def copies(parts: Sequence[Part], setup: Setup, held: States, activations: int) -> int:
    """Bytes of the rank that writes, in the host's memory: of a process on CPUs, not of a GPU.

    The copy has the weights in fp32 and the moments, and its room is kept for the next checkpoint
    (``wstrain_torch.checkpoint.host_copy``). Where ranks are alike, rank 0 copies all of it. ZeRO's slices
    are put together first, on rank 0, and copied then: for that moment there are two, but no activations.

    Args:
        parts: the rank's pipeline stage, each weight with the rank's share of it.
        setup: how it is trained.
        held: its states.
        activations: what the backward pass takes, which is free while the state is put together.
    """
    if setup.gpu:
        return 0
    if setup.strategy in SLICED:
        return held.parameters + held.optimizer
    weights = [weight for part in parts for weight in part.weights]
    trained = sum(weight.count for weight in weights if weight.trained)
    copy = 4 * sum(weight.count for weight in weights) + 4 * setup.moments * trained
    return copy + (max(0, copy - activations) if setup.strategy == "deepspeed" else 0)

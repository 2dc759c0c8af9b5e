"""DeepSpeed's ZeRO: what each stage cuts into slices, and what its buckets hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from worldsize.planning.memory.network import Part
from worldsize.planning.memory.setup import Setup

Made = TypeVar("Made")
PERSISTENT = 100_000  # DeepSpeed's `stage3_param_persistence_threshold`
SUB_GROUP = 1_000_000_000  # numbers that stage 3 updates at once: DeepSpeed's `sub_group_size`


def states(parts: Sequence[Part], setup: Setup, made: Callable[[int, int, int, int], Made]) -> Made:
    """Bytes of weights, gradients, optimizer states and buffers.

    With N weights on n ranks, in half precision ZeRO keeps 2N bytes of weights, 2N of gradients, and for the
    optimizer an fp32 master copy beside its moments: 12N for Adam (Rajbhandari et al. 2020,
    arXiv:1910.02054, section 3.1). Stage 1 divides the optimizer states by n, 2 the gradients, 3 the weights.
    In fp32 DeepSpeed keeps the master copy too, from stage 1 on, beside weights of 4 bytes.

    Args:
        parts: the whole model.
        setup: how it is trained.
        made: makes the result.
    """
    trained = sum(part.trained for part in parts)
    everything = sum(weight.count for part in parts for weight in part.weights)
    ranks, narrow, stage = setup.data, setup.narrow, setup.stage
    own = -(-trained // ranks)
    master = 4 if stage or narrow == 2 else 0
    parameters = narrow * (everything if stage < 3 else -(-everything // ranks))
    # Stage 1 exchanges after the last micro-batch and waits for it with whole gradients.
    whole = stage == 0 or (stage == 1 and setup.accumulation > 1)
    gradients = narrow * (trained if whole else own)
    optimizer = (master + 4 * setup.moments) * (own if stage else trained)
    if setup.offload_optimizer:
        optimizer = 0
        gradients = 0 if stage > 1 else gradients
    if setup.offload_parameters:
        parameters = 0
    return made(parameters, gradients, optimizer, _buffers(parts, setup, trained))


def _buffers(parts: Sequence[Part], setup: Setup, trained: int) -> int:
    """A bucket of gradients, and with stage 3 the weights that are whole while a block computes.

    The bucket is made as large as configured, however small the model; a host only provides the memory that
    is written, at most that of the gradients. The step needs the slice's gradients in fp32. Stage 3 never
    cuts tensors of up to :data:`PERSISTENT` numbers (``stage_1_and_2.py``, ``stage3.py`` and
    ``parameter_offload.py`` of DeepSpeed 0.19).
    """
    if setup.stage == 0:
        return 4 * trained if setup.narrow == 2 else 0
    bucket = (setup.bucket if setup.gpu else min(setup.bucket, trained)) * setup.narrow
    own = -(-trained // setup.data)
    step = 0 if setup.offload_optimizer else 4 * (own if setup.stage < 3 else min(own, SUB_GROUP))
    if setup.stage < 3:
        return bucket + step
    largest = sorted((sum(weight.count for weight in part.weights) for part in parts), reverse=True)[:2]
    return bucket + step + setup.narrow * sum(largest) + persistent(parts, setup)


def persistent(parts: Sequence[Part], setup: Setup) -> int:
    """Bytes of small tensors that stage 3 keeps whole on every rank, beside their slices."""
    small = (weight.count for part in parts for weight in part.weights if weight.count <= PERSISTENT)
    return setup.narrow * sum(small)

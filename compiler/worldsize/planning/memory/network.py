"""What the memory of a model depends on: the shapes of its weights, and what its layers keep."""

from __future__ import annotations

import math
from functools import cache

from msgspec import Struct

from worldsize.facts import table


class Weight(Struct, frozen=True):
    """One parameter tensor, by its name in the whole model."""

    name: str
    shape: tuple[int, ...]
    trained: bool = True
    dimension: int | None = None  # which one tensor parallelism divides; None keeps the tensor whole
    looked_up: bool = False  # its rows are looked up, and no product takes it

    @property
    def count(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)


class Kept(Struct, frozen=True):
    """Numbers that one sample leaves behind for the backward pass.

    ``wide`` stay fp32 under any precision, ``narrow`` have that of the arithmetic, ``normed`` belong to
    normalisation layers, which autocast runs in fp32 on GPUs only. Tensor parallelism divides the ``shared``
    ones. ``once`` does not depend on the number of samples.
    """

    wide: int = 0
    narrow: int = 0
    normed: int = 0
    shared_wide: int = 0
    shared_narrow: int = 0
    once: int = 0


class Part(Struct, frozen=True):
    """A step of the forward pass: a block, or what stands between blocks.

    ``work`` counts numbers a sample that live only while this part's gradients are computed, and ``inputs``
    those a sample that are kept in fp32 where a block is computed again instead.
    """

    name: str
    weights: tuple[Weight, ...]
    kept: Kept = Kept()
    work: int = 0
    inputs: int = 0
    block: bool = False

    @property
    def trained(self) -> int:
        """Numbers that are trained."""
        return sum(weight.count for weight in self.weights if weight.trained)


class Network(Struct, frozen=True):
    """A model as memory sees it; ``parts`` are in the order of the forward pass.

    ``exact`` is False where activations were not counted, so that they are left out of the sum.
    """

    name: str
    parts: tuple[Part, ...]
    sample: int  # bytes of one sample's inputs on the device
    exact: bool = True
    heads: int = 0  # of a Hugging Face model

    @property
    def count(self) -> int:
        """Numbers in all weights, also in those that are not trained."""
        return sum(weight.count for part in self.parts for weight in part.weights)

    @property
    def trained(self) -> int:
        """Numbers that are trained."""
        return sum(part.trained for part in self.parts)

    @property
    def has_blocks(self) -> bool:
        """Whether there are blocks to shard or to compute again."""
        return any(part.block for part in self.parts)


class GpuConstants(Struct, frozen=True):
    """What no formula tells of the memory of a GPU: the values of ``gpu_memory_constants.csv``.

    A measurement on a GPU replaces them there, or in a :class:`Setup`.
    """

    context_bytes: (
        float  # of a process: CUDA's context with its kernels, beside which NCCL's buffers are small
    )
    allocator_share: float  # of the bytes of tensors, what the allocator reserves beside them
    compiled_share: float  # of the activations of a model as it is, those of a compiled one
    room_share: float  # of a device's memory, what a training may be planned to take


@cache
def gpu_constants() -> GpuConstants:
    """The constants of the table."""
    return GpuConstants(
        **{row["name"]: float(row["value"]) for row in table.read_rows("gpu_memory_constants")}
    )


HALF = ("bf16", "fp16")


class Setup(Struct, frozen=True):
    """One rank's share of a training.

    ``strategy`` is that of the component, ``deepspeed`` and ``horovod`` among them; ``data``, ``tensor`` and
    ``pipeline`` are the degrees, whose product is the world size. ``stage`` is ZeRO's. ``rank`` counts the
    stages of a pipeline; every other division is shown for the rank with the most.
    """

    strategy: str
    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    micro_batch: int = 1
    accumulation: int = 1
    optimizer: str = "sgd"
    momentum: float = 0.9
    precision: str = "fp32"
    checkpointing: bool = False  # of activations, block by block
    gpu: bool = True
    stage: int = 0
    offload_optimizer: bool = False
    offload_parameters: bool = False
    bucket: int = 50_000_000  # numbers that DeepSpeed reduces or gathers at once
    reshard: str = "auto"  # of FSDP: auto, always, never
    reduce_always: bool = False  # FSDP averages gradients after each micro-batch
    cpu_offload: bool = False  # of FSDP
    schedule: str = "gpipe"
    averaged: bool = False  # a moving average of the weights beside them
    compiled: bool = False  # by torch.compile
    unused: bool = False  # some weights may get no gradient, as those of a user's model
    constants: GpuConstants | None = None  # measured ones; None for those of the table
    pooled: bool | None = (
        None  # freed memory serves any other tensor; None: on a GPU, as CUDA's allocator has it
    )

    @property
    def narrow(self) -> int:
        """Bytes of a number in the arithmetic of the forward pass."""
        return 2 if self.precision in HALF else 4

    @property
    def moments(self) -> int:
        """Numbers kept for each weight: two of Adam's, one of momentum, one of a moving average."""
        average = int(self.averaged)
        if self.optimizer in ("sgd", "lars"):
            return average + (1 if self.momentum else 0)
        return average + 2

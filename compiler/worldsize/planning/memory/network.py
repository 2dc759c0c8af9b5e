"""What the memory of a model depends on: the shapes of its weights, and what its layers keep."""

from __future__ import annotations

import math

from msgspec import Struct


class Weight(Struct, frozen=True):
    """One parameter tensor, by its name in the whole model."""

    name: str
    shape: tuple[int, ...]
    trained: bool = True
    dimension: int | None = None  # which one tensor parallelism divides; None keeps the tensor whole

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

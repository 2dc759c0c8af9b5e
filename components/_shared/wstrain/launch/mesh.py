"""The mesh of ranks when a model is divided as well as replicated.

Ranks fill a mesh ``[pipeline, data, tensor]`` with the tensor dimension innermost: its ranks exchange
activations in every layer, so they should be on one instance. This module needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from wsshards.errors import UserError


class Mesh(NamedTuple):
    """Degrees of parallelism; their product is the world size.

    Attributes:
        data: replicas of the model, each with its own part of a global batch.
        tensor: ranks that share each layer.
        pipeline: stages of layers, one after the other.
    """

    data: int
    tensor: int = 1
    pipeline: int = 1

    @property
    def world_size(self) -> int:
        """Ranks of the whole mesh."""
        return self.data * self.tensor * self.pipeline

    def replica(self, rank: int) -> int:
        """Return which replica ``rank`` belongs to, ``0 … data-1``."""
        return rank // self.tensor % self.data

    def tensor_index(self, rank: int) -> int:
        """Return the rank's place among those that share its layers, from 0."""
        return rank % self.tensor

    def stage(self, rank: int) -> int:
        """Return the rank's pipeline stage, from 0."""
        return rank // (self.tensor * self.data)


def make_mesh(world_size: int, *, tensor: int, pipeline: int) -> Mesh:
    """Return the mesh of ``world_size`` ranks, in which the data dimension takes what the others leave.

    Raises:
        UserError: the other degrees do not divide the world size.
    """
    data, rest = divmod(world_size, tensor * pipeline)
    if rest or data == 0:
        raise UserError(
            f"tensor_parallel_size {tensor} × pipeline_parallel_size {pipeline} = {tensor * pipeline}"
            f" does not divide the world size {world_size}",
            "make world size = data × tensor × pipeline",
        )
    return Mesh(data, tensor, pipeline)


def partition_blocks(costs: Sequence[int], stages: int) -> list[range]:
    """Cut blocks into contiguous stages, so that the most expensive stage costs as little as possible.

    The linear partition problem by dynamic programming, in ``O(stages · blocks²)``.

    Args:
        costs: of each block, for instance its number of weights; a stage must cost more than zero.
        stages: number of stages.

    Returns:
        The blocks of each stage; empty if there are fewer blocks of any cost than stages. Among equal cuts
        the one whose first stages are shorter.
    """
    sums = [0, *accumulate(costs)]
    blocks = len(costs)
    best = [[math.inf] * (blocks + 1) for _ in range(stages + 1)]  # [stages so far][blocks so far]
    best[0][0] = 0.0
    begins = [[0] * (blocks + 1) for _ in range(stages + 1)]
    for stage in range(1, stages + 1):
        for end in range(1, blocks + 1):
            for begin in range(end):
                cost = sums[end] - sums[begin] or math.inf
                highest = max(best[stage - 1][begin], cost)
                if highest < best[stage][end]:
                    best[stage][end], begins[stage][end] = highest, begin
    if best[stages][blocks] == math.inf:
        return []
    parts: list[range] = []
    end = blocks
    for stage in range(stages, 0, -1):
        parts.insert(0, range(begins[stage][end], end))
        end = begins[stage][end]
    return parts

"""The mesh of ranks when a model is divided as well as replicated.

Ranks fill a mesh ``[pipeline, data, tensor]`` with the tensor dimension innermost: its ranks exchange
activations in every layer, so they should be on one instance. This module needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from wsshards.errors import UserError


@dataclass(frozen=True, slots=True)
class Mesh:
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

    def tensor_rank(self, rank: int) -> int:
        """Return the rank's place among those that share its layers."""
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

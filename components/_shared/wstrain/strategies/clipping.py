"""Clipping of gradients that are divided over ranks, perhaps each in its own way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


@torch.no_grad()
def clip_gradients(
    parameters: Iterable[nn.Parameter], longest: float, stages: dist.ProcessGroup | None = None
) -> None:
    """Scale gradients down so that they are at most ``longest`` long together (Pascanu et al. 2013).

    Args:
        parameters: this rank's; of ``DTensor`` gradients all parts count, the others once.
        longest: Euclidean length over the gradients of the whole model.
        stages: ranks that hold the rest of the model, with parameters of their own.
    """
    own = list(parameters)
    gradients = [parameter.grad for parameter in own if parameter.grad is not None]
    squares = [_square(alike) for alike in _by_mesh(gradients)]
    square = torch.stack(squares).sum() if squares else torch.zeros((), device=own[0].device)
    if stages is not None:
        dist.all_reduce(square, group=stages)
    factor = (longest / (square.sqrt() + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
    for gradient in gradients:
        (gradient.to_local() if isinstance(gradient, DTensor) else gradient).mul_(factor)


def _by_mesh(gradients: Iterable[Tensor]) -> list[list[Tensor]]:
    # Tensors of different meshes cannot take part in one operation.
    groups: dict[object, list[Tensor]] = defaultdict(list)
    for gradient in gradients:
        groups[gradient.device_mesh if isinstance(gradient, DTensor) else None].append(gradient)
    return list(groups.values())


def _square(gradients: list[Tensor]) -> Tensor:
    """The squared length of all of ``gradients``, also of what other ranks have of them."""
    length = nn.utils.get_total_norm(gradients)
    if not isinstance(length, DTensor):
        return length.square()
    square = length.to_local().square()
    for dimension, placement in enumerate(length.placements):
        if placement.is_partial():
            dist.all_reduce(square, group=length.device_mesh.get_group(dimension))
    return square

"""Clipping of gradients that are divided over ranks, perhaps each in its own way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

_Ranks = tuple[dist.ProcessGroup, ...]


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
    groups: dict[_Ranks, list[Tensor]] = defaultdict(list)
    for parameter in own:
        if parameter.grad is not None:
            groups[_ranks(parameter.grad)].append(_local(parameter.grad))
    square = torch.zeros((), device=own[0].device)
    for ranks, gradients in groups.items():
        part = nn.utils.get_total_norm(gradients).square()
        for others in ranks:
            dist.all_reduce(part, group=others)
        square += part
    if stages is not None:
        dist.all_reduce(square, group=stages)
    factor = (longest / (square.sqrt() + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
    for gradients in groups.values():
        for gradient in gradients:
            gradient.mul_(factor)


def _ranks(gradient: Tensor) -> _Ranks:
    """The groups of ranks that hold the other parts of a gradient, one for each dimension it is cut along."""
    if not isinstance(gradient, DTensor):
        return ()
    mesh = gradient.device_mesh
    cut = [number for number, placement in enumerate(gradient.placements) if not placement.is_replicate()]
    return tuple(mesh.get_group(number) for number in cut)


def _local(gradient: Tensor) -> Tensor:
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient

"""Batch normalisation: a warning where a model has it, and statistics over all ranks on request."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def has_batch_norm(model: nn.Module) -> bool:
    """Whether a layer normalises over the local batch."""
    return any(isinstance(layer, (*BATCH_NORM, nn.SyncBatchNorm)) for layer in model.modules())


def synchronise_batch_norm(model: nn.Module) -> nn.Module:
    """Make each batch normalisation take its statistics over the micro-batches of all ranks.

    PyTorch's own ``SyncBatchNorm`` runs on GPUs only; a rehearsal needs the same mathematics on gloo.
    """
    if isinstance(model, BATCH_NORM):
        return _synchronised(model)
    for name, child in model.named_children():
        setattr(model, name, synchronise_batch_norm(child))
    return model


class SynchronisedBatchNorm(nn.BatchNorm1d):
    """Batch normalisation of ``[n, channels, …]`` over all ranks."""

    _add_up: Callable[[Tensor], object] | None = None
    _world_size = 1

    def set_exchange(self, add_up: Callable[[Tensor], object], world_size: int) -> None:
        """Replace ``torch.distributed``: ``add_up`` sums a tensor over ranks, in place."""
        self._add_up, self._world_size = add_up, world_size

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name of the base class
        """Normalise; in training by the statistics of all ranks' micro-batches together."""
        add_up, world_size = self._ranks()
        if not self.training or world_size == 1:
            return super().forward(input)
        axes = [0, *range(2, input.ndim)]
        count = input.numel() / input.shape[1]
        sums = torch.stack([input.float().sum(axes), input.float().square().sum(axes)])
        total = count * world_size  # micro-batches are of one size on all ranks
        mean, square = _sum_over_ranks(sums, add_up) / total
        variance = (square - mean.square()).clamp_min(0)
        self._remember(mean.detach(), variance.detach() * total / max(total - 1, 1))
        shape = [1, -1, *([1] * (input.ndim - 2))]
        result = (input - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(input.dtype)  # type: ignore[no-any-return]

    def _ranks(self) -> tuple[Callable[[Tensor], object], int]:
        if self._add_up is not None:
            return self._add_up, self._world_size
        return dist.all_reduce, dist.get_world_size() if dist.is_initialized() else 1

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        del input  # one class serves 1, 2 and 3 dimensions


class _SumOverRanks(torch.autograd.Function):
    """All-reduce whose gradient is the all-reduce of the gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, add_up: Callable[[Tensor], object]) -> Tensor:
        ctx.add_up = add_up
        total = value.clone()
        add_up(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        total = gradients[0].contiguous().clone()
        ctx.add_up(total)
        return total, None


def _sum_over_ranks(value: Tensor, add_up: Callable[[Tensor], object]) -> Tensor:
    total: Tensor = _SumOverRanks.apply(value, add_up)  # type: ignore[no-untyped-call]
    return total


def _synchronised(layer: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) -> nn.Module:
    new = SynchronisedBatchNorm(
        layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats
    )
    new.load_state_dict(layer.state_dict())
    return new


def warn_of_batch_norm() -> None:
    """Warn that the loss of this model depends on the number of ranks."""
    warnings.warn(
        "the model has batch normalisation: its statistics are of one rank's micro-batch, so the loss"
        " depends on the world size; use group or layer normalisation, or `sync_batch_norm: true`",
        stacklevel=2,
    )

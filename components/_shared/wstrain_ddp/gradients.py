"""Gradients averaged over the replicas of a model that is itself divided over ranks.

Where every rank has a whole model, ``DistributedDataParallel`` does this while the backward pass still runs.
It does not know of weights that are parts of a larger tensor, so here the exchange follows the last
micro-batch: once a step.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

BUCKET_BYTES = 25 * 1024 * 1024  # as DistributedDataParallel's: large enough for the links
IN_FLIGHT = 2  # buckets, so that their copies take little memory


@torch.no_grad()
def average_gradients(parameters: Iterable[nn.Parameter], replicas: dist.ProcessGroup) -> None:
    """Replace every gradient by its mean over ``replicas``; a parameter without one counts as zeros.

    Args:
        parameters: those that are trained, in the same order on every rank. Of a ``DTensor`` this rank's part
            is averaged: ``replicas`` hold the same part.
        replicas: ranks with the same part of the model.
    """
    if replicas.size() == 1:
        return
    sent: deque[_Exchange] = deque()
    for bucket in _buckets(_local_gradient(parameter) for parameter in parameters):
        # A large tensor is a bucket of its own, and needs no copy.
        flat = (
            bucket[0].view(-1)
            if _is_single_tensor(bucket)
            else torch.cat([part.reshape(-1) for part in bucket])
        )
        flat.div_(replicas.size())
        sent.append(_Exchange(dist.all_reduce(flat, group=replicas, async_op=True), flat, bucket))
        if len(sent) > IN_FLIGHT:
            sent.popleft().finish()
    for exchange in sent:
        exchange.finish()


@dataclass(frozen=True, slots=True)
class _Exchange:
    """An exchange that has started."""

    work: dist.Work | None
    flat: Tensor
    bucket: list[Tensor]

    def finish(self) -> None:
        if self.work is not None:
            self.work.wait()
        if _is_single_tensor(self.bucket):
            return
        parts = torch.split(self.flat, [gradient.numel() for gradient in self.bucket])
        for gradient, part in zip(self.bucket, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def _is_single_tensor(bucket: list[Tensor]) -> bool:
    return len(bucket) == 1 and bucket[0].is_contiguous()


def _local_gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    gradient = parameter.grad
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient


def _buckets(gradients: Iterator[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    size = 0
    for gradient in gradients:
        same = not bucket or bucket[0].dtype == gradient.dtype
        if bucket and (not same or size + gradient.nbytes > BUCKET_BYTES):
            yield bucket
            bucket, size = [], 0
        bucket.append(gradient)
        size += gradient.nbytes
    if bucket:
        yield bucket


_Ranks = tuple[dist.ProcessGroup, ...]


@torch.no_grad()
def clip_gradients(
    parameters: Iterable[nn.Parameter], max_norm: float, stages: dist.ProcessGroup | None = None
) -> None:
    """Scale gradients down so that they are at most ``max_norm`` long together (Pascanu et al. 2013).

    Args:
        parameters: this rank's; of ``DTensor`` gradients all parts count, the others once.
        max_norm: Euclidean length over the gradients of the whole model.
        stages: ranks that hold the rest of the model, with parameters of their own.
    """
    local_parameters = list(parameters)
    groups: dict[_Ranks, list[Tensor]] = defaultdict(list)
    for parameter in local_parameters:
        if parameter.grad is not None:
            groups[_ranks(parameter.grad)].append(_local(parameter.grad))
    square = torch.zeros((), device=local_parameters[0].device)
    for ranks, gradients in groups.items():
        part = nn.utils.get_total_norm(gradients).square()
        for others in ranks:
            dist.all_reduce(part, group=others)
        square += part
    if stages is not None:
        dist.all_reduce(square, group=stages)
    factor = (max_norm / (square.sqrt() + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
    for gradients in groups.values():
        torch._foreach_mul_(gradients, factor)


def _ranks(gradient: Tensor) -> _Ranks:
    """Return the groups of ranks with the other parts of a gradient, one for each dimension of the cut."""
    if not isinstance(gradient, DTensor):
        return ()
    mesh = gradient.device_mesh
    cut = [number for number, placement in enumerate(gradient.placements) if not placement.is_replicate()]
    return tuple(mesh.get_group(number) for number in cut)


def _local(gradient: Tensor) -> Tensor:
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient

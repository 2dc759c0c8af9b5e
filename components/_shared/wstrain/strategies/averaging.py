"""Gradients averaged over the replicas of a model that is itself divided over ranks.

Where every rank has a whole model, ``DistributedDataParallel`` does this while the backward pass still runs.
It does not know of weights that are parts of a larger tensor, so here the exchange follows the last
micro-batch: once a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

BUCKET_BYTES = (
    25 * 1024 * 1024
)  # as DistributedDataParallel's: large enough for the links, small enough to overlap


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
    sent: list[tuple[dist.Work | None, Tensor, list[Tensor]]] = []
    for bucket in _buckets(_local_gradient(parameter) for parameter in parameters):
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket]).div_(replicas.size())
        sent.append((dist.all_reduce(flat, group=replicas, async_op=True), flat, bucket))
    for work, flat, bucket in sent:
        if work is not None:
            work.wait()
        parts = torch.split(flat, [gradient.numel() for gradient in bucket])
        for gradient, part in zip(bucket, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


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

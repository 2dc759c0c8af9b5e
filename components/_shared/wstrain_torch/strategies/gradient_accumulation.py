"""Gradient accumulation for every strategy in which a rank runs the whole forward pass."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from wstrain_torch.strategies.protocol import MicroBatches, Objective


def accumulate(
    micro_batches: MicroBatches,
    objective: Objective,
    model: Callable[[Tensor], Tensor],
    *,
    backward: Callable[[Tensor], None],
    exchange: Callable[[bool], AbstractContextManager[object]],
) -> Tensor:
    """Accumulate the gradients of each micro-batch's share of the mean loss.

    Args:
        micro_batches: the rank's part of the global batch.
        objective: the loss.
        model: called on inputs.
        backward: adds the gradients of a loss that was already divided by the number of micro-batches.
        exchange: returns the context of one forward and backward pass, given whether it is the last one of
            the
            step; gradients are exchanged in the last one only.

    Returns:
        The mean loss over the micro-batches, 0-d, detached.
    """
    losses: list[Tensor] = []
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        with exchange(number == micro_batches.count):
            loss = objective(model, inputs, targets) / micro_batches.count
            backward(loss)
        losses.append(loss.detach())
    return torch.stack(losses).sum()

"""Distributed data parallel: every rank holds the whole model and gradients are averaged.

Each micro-batch's loss is a mean over ``b`` samples, divided by ``a`` accumulation steps; ranks average the
sum. As all ``a·W`` micro-batches have one size, the result is the gradient of the mean loss of the global
batch.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies import TorchStrategy, UpdateSettings


class DataParallel(TorchStrategy):
    """The strategy ``ddp``; a single process exchanges nothing, so its model is not wrapped."""

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        # Else gradients of micro-batches that are not exchanged would lie beside the buckets, and be copied
        # into them. One that may be missing must stay so: the optimizer leaves its parameter alone.
        self._keeps_gradients = updates.accumulation > 1 and not updates.unused_parameters
        self._alone = group.launch.world_size == 1
        self._graphs = self._alone and updates.accumulation == 1 and not updates.unused_parameters
        super().__init__(model.to(group.device), updates)
        if not self._alone:
            self.model = DistributedDataParallel(
                self.model,
                device_ids=[group.device] if group.device.type == "cuda" else None,
                gradient_as_bucket_view=True,  # gradients live in the buckets: one copy less
                find_unused_parameters=updates.unused_parameters,
            )

    def _exchange(self, last: bool) -> AbstractContextManager[object]:
        # DDP averages the gradients while the last micro-batch's are still being computed.
        if isinstance(self.model, DistributedDataParallel) and not last:
            return self.model.no_sync()
        return nullcontext()

    def _clear_gradients(self) -> None:
        self._optimizer.zero_grad(set_to_none=self._alone or not self._keeps_gradients)


def build_strategy(model: nn.Module, updates: UpdateSettings, group: Group) -> DataParallel:
    """Return the strategy around ``model``."""
    return DataParallel(model, updates, group)

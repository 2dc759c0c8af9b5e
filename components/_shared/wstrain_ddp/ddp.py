"""Distributed data parallel: every rank holds the whole model and gradients are averaged.

Each micro-batch's loss is a mean over ``b`` samples, divided by ``a`` accumulation steps; ranks average the
sum. As all ``a·W`` micro-batches have one size, the result is the gradient of the mean loss of the global
batch.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from wstrain_torch import optimizers
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies.gradient_accumulation import accumulate
from wstrain_torch.strategies.protocol import MicroBatches, Objective, UpdateSettings


class DataParallel:
    """The strategy ``ddp``; with one process there is nothing to exchange and nothing is wrapped."""

    sharded = False

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        self._module = model.to(group.device)
        self.model = self._wrap(updates, group)
        self._optimizer = optimizers.build_optimizer(self._module, updates.optimizer, learning_rate=0.0)
        self._scaler = updates.precision.scaler
        self._max_norm = updates.max_gradient_norm

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Add gradients up; DDP averages them while the last micro-batch's are still being computed."""
        return accumulate(
            micro_batches, objective, self.model, backward=self._backward, exchange=self._exchange
        )

    def update(self, learning_rate: float) -> None:
        """Step all parameter groups at ``learning_rate``."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        if self._max_norm > 0:
            self._scaler.unscale_(self._optimizer)
            nn.utils.clip_grad_norm_(self._module.parameters(), self._max_norm)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Any]:
        """Weights, optimizer and scaler; every rank has the same, so rank 0's are enough."""
        return {
            "model": self._module.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state on this rank's device."""
        self._module.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._scaler.load_state_dict(state["scaler"])

    def whole_model(self) -> nn.Module:
        """Return the module itself."""
        return self._module

    def _backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def _exchange(self, last: bool) -> AbstractContextManager[object]:
        if isinstance(self.model, DistributedDataParallel) and not last:
            return self.model.no_sync()
        return nullcontext()

    def _wrap(self, updates: UpdateSettings, group: Group) -> nn.Module:
        if group.launch.world_size == 1:
            return self._module
        return DistributedDataParallel(
            self._module,
            device_ids=[group.device] if group.device.type == "cuda" else None,
            gradient_as_bucket_view=True,  # gradients live in the buckets: one copy less
            find_unused_parameters=updates.unused_parameters,
        )


def build_strategy(model: nn.Module, updates: UpdateSettings, group: Group) -> DataParallel:
    """Return the strategy around ``model``."""
    return DataParallel(model, updates, group)

"""Horovod: every rank holds the whole model; MPI, or NCCL below it, combines what the ranks have learned.

``reduction: average`` is the mathematics of :mod:`wstrain_ddp.ddp`: each micro-batch's loss is a mean
over ``b`` samples, divided by ``a`` accumulation steps, and Horovod averages the sum over ranks, once a step
(``backward_passes_per_step`` is ``a``; Horovod itself does not divide by it). The learning rate is the one of
the plan, which knows the world size: Horovod's examples multiply theirs by ``hvd.size()``.

``reduction: adasum`` (Maleki et al. 2020, "Scaling Distributed Training with Adaptive Summation") lets each
rank step with its own gradients and combines the steps: two that are orthogonal are added, two that are
parallel are averaged. The learning rate that suits one rank's samples then suits any number of ranks.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn

from wstrain_horovod.communication import load_horovod
from wstrain_horovod.reduction import ADASUM
from wstrain_torch import optimizers
from wstrain_torch.launch.process_group import Group
from wstrain_torch.models.batch_norm import SynchronisedBatchNorm
from wstrain_torch.strategies.gradient_accumulation import accumulate
from wstrain_torch.strategies.protocol import MicroBatches, Objective, UpdateSettings


class Horovod:
    """The strategy ``horovod``; with one process there is nothing to exchange and Horovod is not loaded."""

    sharded = False

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        self.model = model.to(group.device)
        self._scaler = updates.precision.scaler
        self._max_norm = updates.max_gradient_norm
        self._hvd = load_horovod() if group.launch.world_size > 1 else None
        self._adasum = updates.options["reduction"] == ADASUM
        self._optimizer: Any = optimizers.build_optimizer(self.model, updates.optimizer, learning_rate=0.0)
        if self._hvd is not None:
            _synchronise_batch_norm(self.model, self._hvd, group.launch.world_size)
            self._optimizer = self._distributed(updates)
            self._agree()

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Add gradients up; Horovod exchanges each as soon as the last micro-batch has computed it."""
        return accumulate(
            micro_batches,
            objective,
            self.model,
            backward=self._backward,
            exchange=lambda _: nullcontext(),
        )

    def update(self, learning_rate: float) -> None:
        """Step all parameter groups at ``learning_rate``."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        with self._exchanged():
            if self._max_norm > 0:
                self._scaler.unscale_(self._optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), self._max_norm)
            self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad()

    def state(self) -> dict[str, Any]:
        """Weights, optimizer and scaler, as ``ddp`` has them.

        Every rank has the same, except that with Adasum each has its own momenta; rank 0's are kept.
        """
        return {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state on this rank's device; all ranks take rank 0's."""
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._scaler.load_state_dict(state["scaler"])
        self._agree()

    def whole_model(self) -> nn.Module:
        """Return the module itself."""
        return self.model

    def _backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def _exchanged(self) -> AbstractContextManager[object]:
        """Wait for the averaged gradients; they may be changed within the context, which ends with a step."""
        if self._hvd is None or self._adasum:
            return nullcontext()
        self._optimizer.synchronize()
        context: AbstractContextManager[object] = self._optimizer.skip_synchronize()
        return context

    def _distributed(self, updates: UpdateSettings) -> Any:
        assert self._hvd is not None
        hvd = self._hvd
        # With Adasum Horovod takes the optimizer's step within the last backward pass, when neither the
        # step's learning rate nor the length of the whole gradient is known. It waits here for a pass that
        # never comes, so it steps when it is told to.
        passes = updates.accumulation + 1 if self._adasum else updates.accumulation
        return hvd.DistributedOptimizer(
            self._optimizer,
            named_parameters=[(name, p) for name, p in self.model.named_parameters() if p.requires_grad],
            compression=getattr(hvd.Compression, updates.options["compression"]),
            backward_passes_per_step=passes,
            op=hvd.Adasum if self._adasum else hvd.Average,
        )

    def _agree(self) -> None:
        if self._hvd is None:
            return
        self._hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        # Without a state Horovod would make one by a step with gradients of zero, which counts as a step.
        if self._optimizer.state_dict()["state"]:
            self._hvd.broadcast_optimizer_state(self._optimizer, root_rank=0)


def _synchronise_batch_norm(model: nn.Module, hvd: Any, world_size: int) -> None:
    def add_up(values: Tensor) -> None:
        hvd.allreduce_(values, op=hvd.Sum, name=f"worldsize.batch_norm.{list(values.shape)}")

    for layer in model.modules():
        if isinstance(layer, SynchronisedBatchNorm):
            layer.set_exchange(add_up, world_size)


def build_strategy(model: nn.Module, updates: UpdateSettings, group: Group) -> Horovod:
    """Return the strategy around ``model``."""
    return Horovod(model, updates, group)

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
from wstrain_horovod.launch import ADASUM
from wstrain_torch.launch.process_group import Group
from wstrain_torch.models.batch_norm import SynchronisedBatchNorm
from wstrain_torch.strategies import TorchStrategy, UpdateSettings


class Horovod(TorchStrategy):
    """The strategy ``horovod``; a single process exchanges nothing and does not load Horovod.

    With Adasum each rank has its own momenta; rank 0's are saved, and loaded by all.
    """

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        super().__init__(model.to(group.device), updates)
        self._hvd = load_horovod() if group.launch.world_size > 1 else None
        self._adasum = updates.options["reduction"] == ADASUM
        if self._hvd is not None:
            _synchronise_batch_norm(self.model, self._hvd, group.launch.world_size)
            self._optimizer = self._wrap_optimizer(updates)
            self._average = self._make_average()
            self._broadcast_state()

    def load(self, state: Any) -> None:
        """Load the state onto this rank's device; all ranks take rank 0's."""
        super().load(state)
        self._broadcast_state()

    def _exchanged(self) -> AbstractContextManager[object]:
        """Wait for the averaged gradients; they may be changed within the context, which ends with a step."""
        if self._hvd is None or self._adasum:
            return nullcontext()
        self._optimizer.synchronize()
        context: AbstractContextManager[object] = self._optimizer.skip_synchronize()
        return context

    def _wrap_optimizer(self, updates: UpdateSettings) -> Any:
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

    def _broadcast_state(self) -> None:
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

"""Tensor parallelism: several ranks share every layer; data parallelism over groups of them.

The ranks of one group see the same samples. Each computes its part of the layers that the model's plan names
(:mod:`wstrain_ddp.tensor_parallel_plan`), and they exchange activations in every layer. Groups are replicas:
each takes its part of the global batch, and gradients are averaged over them once a step.

Random numbers drawn between two divided layers are the same on all ranks of a group, for different features:
a dropout there differs from one process's. Elsewhere all draw what one process would.
"""

from __future__ import annotations

from contextlib import nullcontext

from torch import Tensor, nn

from wstrain_ddp import ddp
from wstrain_ddp.device_mesh import TENSOR, make_device_mesh
from wstrain_ddp.model_part import ModelPart
from wstrain_ddp.tensor_parallel_plan import report_misfits, split_tensors
from wstrain_torch.checkpoint import tensor_state
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies.gradient_accumulation import accumulate
from wstrain_torch.strategies.protocol import MicroBatches, Objective, Strategy, UpdateSettings
from wstrain_torch.strategies.weight_memory import copy_without_weights


class TensorParallel:
    """The strategy ``tensor_parallel``.

    Raises:
        UserError: the model names no plan, or one that does not fit it.
    """

    sharded = True

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        mesh = make_device_mesh(group)
        whole = copy_without_weights(model)
        self.model = split_tensors(model, mesh[TENSOR]).to(group.device)
        self._part = ModelPart(self.model, whole, updates, mesh)

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Add gradients up over micro-batches, then average them over replicas."""
        with report_misfits():
            loss = accumulate(
                micro_batches, objective, self.model, backward=_backward, exchange=lambda _last: nullcontext()
            )
        self._part.average()
        return loss

    def update(self, learning_rate: float) -> None:
        """Step all parameters at ``learning_rate``."""
        self._part.update(learning_rate)

    def state(self) -> dict[str, Tensor]:
        """This rank's part of weights and optimizer, by name."""
        return self._part.state()

    def load(self, state: tensor_state.StoredTensors) -> None:
        """Fill this rank's part."""
        self._part.load(state)

    def whole_model(self) -> nn.Module:
        """Return the model undivided, on rank 0."""
        return self._part.whole_model()


def build_strategy(model: nn.Module, updates: UpdateSettings, group: Group) -> Strategy:
    """Return the strategy around ``model``; a single process has nothing to divide."""
    if group.launch.world_size == 1:
        return ddp.build_strategy(model, updates, group)
    return TensorParallel(model, updates, group)


def _backward(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]

"""What every strategy offers to the training loop."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from wstrain.optimizers import OptimizerOptions
from wstrain.precision import Precision


@dataclass(frozen=True, slots=True)
class Updates:
    """How gradients become updates, the same for every strategy.

    Attributes:
        optimizer: which optimizer, with its settings.
        precision: what is computed in.
        max_gradient_norm: longer gradients are scaled down to this length; 0 for never.
        unused_parameters: some parameters may get no gradient.
    """

    optimizer: OptimizerOptions
    precision: Precision
    max_gradient_norm: float = 0.0
    unused_parameters: bool = False


class Strategy(Protocol):
    """How a model is spread over ranks. Every method is called on every rank."""

    model: nn.Module
    """The module to call in a forward pass."""

    def micro_step(self, *, last: bool) -> AbstractContextManager[object]:
        """Context of one forward and backward pass; gradients are exchanged in the last one only."""

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss that was already divided by the accumulation steps."""

    def update(self, learning_rate: float) -> None:
        """Take one optimizer step with gradients averaged over ranks, and clear them."""

    def state(self) -> dict[str, Any]:
        """Return all that a checkpoint needs, in types that ``torch.load(weights_only=True)`` reads."""

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state that any number of ranks saved."""

    def whole_model(self) -> nn.Module:
        """Return the model unwrapped; on rank 0 it has all its weights."""

"""What every strategy offers to the training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn

from wstrain.settings import OptimizerOptions
from wstrain_torch.data.loader import Batch
from wstrain_torch.data.task import Task
from wstrain_torch.precision import Precision


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """How gradients become updates, the same for every strategy.

    Attributes:
        optimizer: which optimizer, with its settings.
        precision: what is computed in.
        micro_batch: samples that a rank takes at once.
        accumulation: micro-batches a step.
        max_gradient_norm: longer gradients are scaled down to this length; 0 for never.
        unused_parameters: whether some parameters may get no gradient.
        options: inputs that only one component has, by name; its strategy reads them.
    """

    optimizer: OptimizerOptions
    precision: Precision
    micro_batch: int = 1
    accumulation: int = 1
    max_gradient_norm: float = 0.0
    unused_parameters: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised: the mean loss of a micro-batch."""

    task: Task
    precision: Precision

    def __call__(self, model: Callable[[Tensor], Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        """Run the forward pass and return the mean loss, 0-d."""
        with self.precision.autocast():
            return self.task.loss(model(inputs), targets)


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """This rank's part of one global batch; iterating sets the random state for each micro-batch in turn.

    Attributes:
        count: number of micro-batches.
        batches: yields ``(inputs, targets)``, at least ``count`` more of them.
        seed: called with the number of a micro-batch, from 0, before it is used.
    """

    count: int
    batches: Iterator[Batch]
    seed: Callable[[int], None]

    def __iter__(self) -> Iterator[Batch]:
        """Yield the micro-batches, each once."""
        for micro in range(self.count):
            batch = next(self.batches)
            self.seed(micro)
            yield batch


class Strategy(Protocol):
    """How a model is distributed over ranks. Every method is called on every rank."""

    model: nn.Module
    """What this rank computes with."""

    sharded: bool
    """Whether ``state()`` differs between ranks."""

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Compute the gradients of the global batch's mean loss.

        Returns:
            The mean loss over this rank's micro-batches, 0-d, detached; its mean over all ranks is the
            global batch's.
        """

    def update(self, learning_rate: float) -> None:
        """Take one optimizer step with these gradients, and clear them."""

    def state(self) -> dict[str, Any]:
        """Return all that a checkpoint needs, in types that ``torch.load(weights_only=True)`` reads.

        Rank 0's is kept; it has ``model`` and ``optimizer`` in the form of ``Module.state_dict()`` and
        ``Optimizer.state_dict()``, so that other strategies can resume from it. A sharded strategy returns
        this rank's tensors by name, as :func:`wstrain_torch.checkpoint.tensor_state.collect_tensors` does;
        each rank writes its own.
        """

    def load(self, state: Any) -> None:
        """Load a state that :meth:`state` returned, whatever the number of ranks was.

        A sharded strategy gets a :class:`wstrain_torch.checkpoint.tensor_state.StoredTensors` to fill its
        tensors from, see :func:`wstrain_torch.checkpoint.tensor_state.restore_tensors`.
        """

    def whole_model(self) -> nn.Module:
        """Return the model unwrapped and undivided; only rank 0's copy needs the weights."""

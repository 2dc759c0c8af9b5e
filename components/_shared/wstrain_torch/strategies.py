"""How a model is distributed over ranks: what strategies offer to the training loop, and what they share.

A strategy is a module with a ``build_strategy`` in the package of the component that offers it
(``wstrain_ddp``, ``wstrain_deepspeed``, ``wstrain_horovod``). CONTRIBUTING lists the steps that add one.
"""

from __future__ import annotations

import copy
import ctypes
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from wstrain.settings import OptimizerOptions
from wstrain_torch import compilation, optimizers
from wstrain_torch.data import Batch, Task
from wstrain_torch.launch.process_group import Group
from wstrain_torch.precision import Precision
from wstrain_torch.weight_average import WeightAverage, forget_average


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """How gradients become updates, the same for every strategy.

    Attributes:
        optimizer: which optimizer, with its settings.
        precision: the precision of the forward pass.
        micro_batch: samples that a rank takes at once.
        accumulation: micro-batches a step.
        max_gradient_norm: longer gradients are scaled down to this length; 0 for never.
        unused_parameters: whether some parameters may get no gradient.
        ema_decay: of the moving average of the weights in one step; 0 for none.
        compile: whether torch compiles the model.
        options: inputs that only one component has, by name; its strategy reads them.
    """

    optimizer: OptimizerOptions
    precision: Precision
    micro_batch: int = 1
    accumulation: int = 1
    max_gradient_norm: float = 0.0
    unused_parameters: bool = False
    ema_decay: float = 0.0
    compile: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised: the mean loss of a micro-batch.

    Attributes:
        task: has the loss.
        precision: of the forward pass.
        compiled: what computes the task's loss instead.
    """

    task: Task
    precision: Precision
    compiled: compilation.Loss | None = None

    def __call__(self, model: Callable[[Tensor], Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        """Run the forward pass and return the mean loss, 0-d."""
        with self.precision.autocast():
            return (self.compiled or self.task.loss)(model(inputs), targets)


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

    def predict(self, inputs: Tensor) -> Tensor | None:
        """Run the model forward only, within :meth:`evaluating`; every rank calls it equally often.

        Args:
            inputs: always of one shape; the same on ranks that hold parts of one replica.

        Returns:
            The outputs, float32; None on a rank that does not have them.
        """

    def evaluating(self) -> AbstractContextManager[object]:
        """Return the context of a validation: evaluation mode, without gradients."""

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


class TorchStrategy:
    """A strategy that steps PyTorch's optimizer.

    As it stands, every rank holds the whole model, and nothing is exchanged.

    Args:
        module: the model on the group's device, with the names that it has in a checkpoint.
        updates: how gradients become updates.
    """

    sharded = False
    _graphs = False  # whether a compiled model may run as CUDA graphs

    def __init__(self, module: nn.Module, updates: UpdateSettings) -> None:
        self._module = module
        self._compiled = updates.compile
        self.model: nn.Module = self._compile(module)
        self._optimizer: Any = optimizers.build_optimizer(module, updates.optimizer, learning_rate=0.0)
        self._scaler = updates.precision.scaler
        self._max_norm = updates.max_gradient_norm
        self._precision = updates.precision
        self._ema_decay = updates.ema_decay
        self._average = self._make_average()

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Accumulate the gradients of the micro-batches."""
        with compilation.report_compile_errors() if self._compiled else nullcontext():
            return accumulate_gradients(
                micro_batches, objective, self.model, backward=self._backward, exchange=self._exchange
            )

    def update(self, learning_rate: float) -> None:
        """Clip the gradients, step at ``learning_rate``, and clear the gradients."""
        optimizers.set_learning_rate(self._optimizer, learning_rate)
        with self._exchanged():
            if self._max_norm > 0:
                self._scaler.unscale_(self._optimizer)
                self._clip()
            self._scaler.step(self._optimizer)
        self._scaler.update()
        if self._average is not None:
            self._average.update()
        self._clear_gradients()

    def predict(self, inputs: Tensor) -> Tensor | None:
        """Call the module itself, so that nothing is exchanged that it does not exchange."""
        with self._precision.autocast():
            outputs: Tensor = self._module(inputs)
        return outputs.float()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the model into evaluation mode, without gradients and with averaged weights if it has them."""
        averaged = self._average.in_place() if self._average is not None else nullcontext()
        with averaged, evaluation_mode(self.model):
            yield

    def state(self) -> dict[str, Any]:
        """Return weights, optimizer and scaler; rank 0's are saved."""
        self._before_save()
        return {
            "model": self._module.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
        }

    def load(self, state: Any) -> None:
        """Load the state onto this rank's device."""
        self._module.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._scaler.load_state_dict(state["scaler"])
        self._after_load()

    def whole_model(self) -> nn.Module:
        """Return the module itself, with averaged weights if it has them; the training is over then."""
        self._take_average()
        return self._module

    def _compile(self, module: nn.Module) -> nn.Module:
        """Return what computes as ``module``, which is on its device."""
        if not self._compiled:
            return module
        device = next(module.parameters()).device
        return compilation.compile_model(module, device, graphs=self._graphs)

    def _make_average(self) -> WeightAverage | None:
        return WeightAverage(self._optimizer, self._ema_decay) if self._ema_decay else None

    def _before_save(self) -> None:
        if self._average is not None:
            self._average.note_updates()

    def _after_load(self) -> None:
        if self._average is not None:
            self._average.restore()
        else:
            forget_average(self._optimizer)

    def _take_average(self) -> None:
        """Keep the averages as the weights."""
        if self._average is not None:
            self._average.swap()
            self._average = None

    def _backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def _exchange(self, last: bool) -> AbstractContextManager[object]:
        """Return the context of one forward and backward pass; ``last`` is the last one of the step."""
        del last
        return nullcontext()

    def _exchanged(self) -> AbstractContextManager[object]:
        """Return the context of the step, in which gradients are complete."""
        return nullcontext()

    def _clear_gradients(self) -> None:
        self._optimizer.zero_grad()

    def _clip(self) -> None:
        nn.utils.clip_grad_norm_(self._module.parameters(), self._max_norm)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, without gradients, and back as the training has it."""
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train()


def accumulate_gradients(
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
            the step; only then are gradients exchanged.

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


def build_strategy(name: str, model: nn.Module, updates: UpdateSettings, group: Group) -> Strategy:
    """Return the strategy of the module ``name`` around ``model``, which moves to the group's device."""
    # Imported here, as a strategy may need a library that only its own component's environment has.
    strategy: Strategy = importlib.import_module(name).build_strategy(model, updates, group)
    return strategy


def copy_without_weights(model: nn.Module) -> nn.Module:
    """Copy ``model`` with parameters on the meta device, which takes no memory; buffers are copied.

    ``load_state_dict(weights, assign=True)`` fills the copy with weights that were gathered from all ranks.
    """
    empty: dict[int, object] = {
        id(parameter): nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
        for parameter in model.parameters()
    }
    return copy.deepcopy(model, empty)


M_MMAP_THRESHOLD = -3  # of glibc's malloc.h
KEPT_BYTES = 1 << 20  # smaller blocks stay with the process


def return_freed_memory() -> None:
    """Let glibc return freed weights and gradients to the system, for strategies that gather them.

    Otherwise glibc keeps freed memory of up to 32 MiB a piece, and the slices that stay between gathered
    blocks prevent its reuse: with 50 million weights on two ranks, FSDP took 0.3 GB more and ZeRO 3 0.5 GB
    more.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)

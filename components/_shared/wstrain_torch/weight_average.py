"""An exponential moving average of the trained weights, which is validated and exported in their place.

After step ``t`` the average is ``d·average + (1 − d)·weights`` with ``d = min(decay, (t − 1) / (t + 8))``.
Without that warm-up a short training would keep much of its initial weights (TensorFlow's
``ExponentialMovingAverage`` has the same with ``num_updates``). Polyak and Juditsky 1992 average weights; the
exponential form is that of Tarvainen and Valpola 2017.

The average of a parameter is one more entry of the optimizer's state, so it is saved, divided, gathered and
loaded as momenta are, by every strategy that steps PyTorch's optimizer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

SLOT, COUNT = "ema", "ema_updates"
_STATELESS = ("SGD", "LARS")  # their state may be empty; the others make theirs while they have none


class WeightAverage:
    """Averages the parameters of an optimizer.

    Args:
        optimizer: whose state has the averages.
        decay: of the average in one step, from 0 to less than 1.
    """

    def __init__(self, optimizer: Any, decay: float) -> None:
        self._optimizer, self._decay = optimizer, decay
        self._updates = 0
        self._always = any(base.__name__ in _STATELESS for base in type(optimizer).__mro__)

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of one more step."""
        # One kernel cannot update tensors of different meshes, or sharded and whole tensors together.
        alike: dict[Any, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
        self._updates += 1
        decay = min(self._decay, (self._updates - 1) / (self._updates + 8))
        for parameter in self._parameters():
            state = self._optimizer.state.get(parameter, {})
            if SLOT in state:
                averages, weights = alike[getattr(parameter, "device_mesh", None)]
                averages.append(state[SLOT])
                weights.append(parameter)
            elif state or self._always:
                self._optimizer.state[parameter][SLOT] = parameter.detach().clone()
            # Else it has never had a gradient, and is its own average.
        for averages, weights in alike.values():
            get_ema_multi_avg_fn(decay)(averages, weights, self._updates)  # type: ignore[no-untyped-call]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the averages within the context."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange weights and averages, one parameter at a time."""
        for parameter in self._parameters():
            average = self._optimizer.state.get(parameter, {}).get(SLOT)
            if average is not None:
                weights = parameter.detach().clone()
                parameter.copy_(average)
                average.copy_(weights)

    def note_updates(self) -> None:
        """Write the number of updates into the optimizer's state, before it is saved."""
        for parameter in self._parameters():
            if SLOT in self._optimizer.state.get(parameter, {}):
                self._optimizer.state[parameter][COUNT] = torch.tensor(float(self._updates))

    def restore(self) -> None:
        """Take the number of updates from a state that was loaded; one without averages begins anew."""
        counts = [state[COUNT] for state in self._optimizer.state.values() if COUNT in state]
        self._updates = int(counts[0]) if counts else 0

    def _parameters(self) -> Iterator[nn.Parameter]:
        for group in self._optimizer.param_groups:
            yield from group["params"]


def forget_average(optimizer: Any) -> None:
    """Remove averages of a loaded state, in a training without them."""
    for state in optimizer.state.values():
        state.pop(SLOT, None)
        state.pop(COUNT, None)

"""How a model is distributed over ranks: one module for each strategy, one protocol for all.

A new strategy is a module with a ``build_strategy`` of the same signature in the package of the component
that offers it (``wstrain_ddp``, ``wstrain_deepspeed``, ``wstrain_horovod``), its name and module among the
``STRATEGIES`` of that component's ``train.py``, and its name in the ``strategy`` enum of its
``component.yml``.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from torch import nn

from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies.protocol import MicroBatches, Objective, Strategy, UpdateSettings

__all__ = ["MicroBatches", "Objective", "Strategy", "UpdateSettings", "build_strategy"]


class Builder(Protocol):
    """What a strategy's module offers."""

    def build_strategy(self, model: nn.Module, updates: UpdateSettings, group: Group) -> Strategy:
        """Return the strategy around ``model``, which moves to the group's device."""


def build_strategy(name: str, model: nn.Module, updates: UpdateSettings, group: Group) -> Strategy:
    """Return the strategy of the module ``name`` around ``model``, which moves to the group's device."""
    # Imported here, as a strategy may need a library that only its own component's environment has.
    module = cast("Builder", importlib.import_module(name))
    return module.build_strategy(model, updates, group)

"""How a model is spread over ranks: one file a strategy, one protocol for all.

A new strategy is a file beside ``ddp.py`` with a ``build`` of the same signature, a line in ``BUILDERS`` and
a value in the ``strategy`` enum of the component.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from wstrain.process_group import Group
from wstrain.strategies import ddp
from wstrain.strategies.protocol import Strategy, Updates

__all__ = ["BUILDERS", "Strategy", "Updates", "build"]

BUILDERS: dict[str, Callable[[nn.Module, Updates, Group], Strategy]] = {
    "ddp": ddp.build,
}


def build(name: str, model: nn.Module, updates: Updates, group: Group) -> Strategy:
    """Return the strategy called ``name`` around ``model``, which moves to the group's device."""
    return BUILDERS[name](model, updates, group)

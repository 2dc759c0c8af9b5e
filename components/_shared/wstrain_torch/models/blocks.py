"""The blocks of a model: the layers that repeat, which are sharded, or computed twice, one by one.

A model names them in its attribute ``blocks``: a list, ``nn.ModuleList`` or ``nn.Sequential`` of its own
submodules, each called as a module in every forward pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from wsshards.errors import UserError
from wstrain_torch.models.standardise import Standardised

HELP = "name the layers that repeat: `model.blocks = list(model.layers)` in the function that makes the model"


class Stack(nn.Sequential):
    """Layers in a row, of which those of one kind are the blocks."""

    def __init__(self, *layers: nn.Module, kind: type[nn.Module]) -> None:
        super().__init__(*layers)
        self.blocks = [layer for layer in layers if isinstance(layer, kind)]


def blocks(model: nn.Module, wanted_by: str) -> list[nn.Module]:
    """Return the blocks of ``model``, in its order.

    Args:
        model: a built-in model or the user's, not yet wrapped by a strategy.
        wanted_by: the input that needs blocks, for the message.

    Raises:
        UserError: the model names none, or names what is no part of it.
    """
    network = model.body if isinstance(model, Standardised) else model
    named = getattr(network, "blocks", None)
    if not isinstance(named, Iterable) or not (found := list(named)):
        raise UserError(f"{wanted_by} works block by block, but the model has none in `blocks`", HELP)
    parts = {id(part) for part in network.modules() if part is not network}
    for number, block in enumerate(found):
        if id(block) not in parts:
            kind = type(block).__name__
            raise UserError(f"`blocks[{number}]` of the model, a `{kind}`, is none of its submodules", HELP)
    within = {id(part) for block in found for part in block.modules() if part is not block}
    if any(id(block) in within for block in found) or len(set(map(id, found))) < len(found):
        raise UserError("a block of the model stands in `blocks` twice, or within another", HELP)
    return found

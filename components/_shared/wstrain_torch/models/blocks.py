"""The blocks of a model, that is the layers that repeat: sharded, or recomputed, one by one.

A model names them in its attribute ``blocks``: a list, ``nn.ModuleList`` or ``nn.Sequential`` of its own
submodules, each called as a module in every forward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from wsshards.errors import UserError
from wstrain_torch.models.layers import Standardised

HELP = "name the layers that repeat: `model.blocks = list(model.layers)` in the function that makes the model"


class Stack(nn.Sequential):
    """Layers in a row, of which those of one kind are the blocks."""

    def __init__(self, *layers: nn.Module, kind: type[nn.Module]) -> None:
        super().__init__(*layers)
        self.blocks = [layer for layer in layers if isinstance(layer, kind)]


def find_blocks(model: nn.Module, wanted_by: str) -> list[nn.Module]:
    """Return the blocks of ``model``, in order.

    Args:
        model: a built-in model or the user's, not yet wrapped by a strategy.
        wanted_by: the input that needs blocks, for the message.

    Raises:
        UserError: the model names no blocks, or names something that is not a submodule.
    """
    network = model.body if isinstance(model, Standardised) else model
    listed = getattr(network, "blocks", None)
    if not isinstance(listed, Iterable) or not (blocks := list(listed)):
        raise UserError(f"{wanted_by} works block by block, but the model has none in `blocks`", HELP)
    parts = {id(part) for part in network.modules() if part is not network}
    for number, block in enumerate(blocks):
        if id(block) not in parts:
            kind = type(block).__name__
            raise UserError(
                f"`blocks[{number}]` of the model, a `{kind}`, is not one of its submodules", HELP
            )
    within = {id(part) for block in blocks for part in block.modules() if part is not block}
    if any(id(block) in within for block in blocks) or len(set(map(id, blocks))) < len(blocks):
        raise UserError("a block of the model is in `blocks` twice, or within another", HELP)
    return blocks


def recompute_blocks(model: nn.Module) -> None:
    """Make every block of ``model`` keep only its inputs, and be computed again for the backward pass.

    Memory for activations falls to that of one block and the inputs of the others, for one more forward pass
    (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). Names and weights stay as they are.

    Call it before a strategy wraps the model, so that a block's weights are gathered around both passes.

    Raises:
        UserError: the model names no blocks.
    """
    for block in find_blocks(model, "`activation_checkpointing: blocks`"):
        # A partial, unlike a closure, follows its module when the model is copied.
        block.forward = functools.partial(_forward, block, block.forward)


def _forward(block: nn.Module, forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    if not (block.training and torch.is_grad_enabled()):  # an exported program needs no recomputation
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, **named)

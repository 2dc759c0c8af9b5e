"""Activation checkpointing: a block keeps its inputs only, and is computed again for the backward pass.

Memory for activations falls from all layers' to one block's and the inputs of the others, for one more
forward pass (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from wstrain_torch.models.blocks import blocks


def recompute_blocks(model: nn.Module) -> None:
    """Make every block of ``model`` drop its activations while training; names and weights stay as they are.

    Call it before a strategy wraps the model: what gathers a block's weights then surrounds both passes.

    Raises:
        UserError: the model names no blocks.
    """
    for block in blocks(model, "`activation_checkpointing: blocks`"):
        # A partial, unlike a closure, follows its module when the model is copied.
        block.forward = functools.partial(_forward, block, block.forward)


def _forward(block: nn.Module, forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    if not (block.training and torch.is_grad_enabled()):  # an exported program has no such detour
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, **named)

"""What the built-in models share: their sizes, and inputs scaled by constants from the training rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from wsshards.errors import UserError


class Standardised(nn.Module):
    """A model behind ``(x - mean) / deviation``.

    The constants come from one fixed sample of rows, never from a batch, so they are the same on every rank
    and are saved with the weights.

    Args:
        body: the model, ``[n, *shape] -> [n, outputs]``.
        sample: training rows ``[m, *shape]``; pictures ``[m, c, h, w]`` share constants over their area.
        scaled: for each number of a row whether it is scaled; empty for all.
    """

    def __init__(self, body: nn.Module, sample: Tensor, scaled: Sequence[bool] = ()) -> None:
        super().__init__()
        self.body = body
        axes = (0, 2, 3) if sample.ndim == 4 else (0,)
        deviation, mean = torch.std_mean(sample.double(), dim=axes, correction=0, keepdim=True)
        # A constant column carries nothing: leave its scale alone instead of dividing by zero.
        deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
        if scaled:  # what is 0 or 1 stays so: the value of a rare category would become huge
            kept = ~torch.tensor(scaled)
            deviation, mean = deviation.masked_fill(kept, 1.0), mean.masked_fill(kept, 0.0)
        # Parameters that are not trained, as DDP would send buffers around before every forward pass.
        self.mean = nn.Parameter(mean[0].float(), requires_grad=False)
        self.deviation = nn.Parameter(deviation[0].float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[n, *shape] -> [n, outputs]``."""
        result: Tensor = self.body((x - self.mean) / self.deviation)
        return result


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Sizes of the transformer: blocks, attention heads, and the width of the residual stream."""

    gpt_layers: int = 4
    gpt_heads: int = 4
    gpt_width: int = 128


class Head(nn.Module):
    """A linear layer that divides by the root of its inputs in the forward pass instead of at the start.

    The function at the start is that of a usual layer, but steps are smaller by the number of inputs (Jacot
    et al. 2018, section 3). The other layers are followed by normalisation, which bounds what a step can do;
    so a learning rate that grew with the batch stays stable.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """``[n, inputs] -> [n, outputs]``."""
        return functional.linear(x / math.sqrt(x.shape[1]), self.weight, self.bias)


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

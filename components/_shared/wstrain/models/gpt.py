"""A byte-level, pre-norm decoder transformer (Radford et al. 2019), with no dropout."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from wstrain.errors import UserError
from wstrain.models.options import ModelOptions
from wstrain.tasks import Task


def build(task: Task, options: ModelOptions) -> nn.Module:
    """Return the network ``[n, tokens] -> [n, tokens, 256]``.

    Raises:
        UserError: the shards are not of tokens, or the width does not divide into heads.
    """
    if task.name != "language_model":
        raise UserError(
            "model `gpt` needs shards of text, these are for classification", "use `cnn` or `mlp`"
        )
    if options.gpt_width % options.gpt_heads:
        raise UserError(
            f"`gpt_width` is {options.gpt_width}, which does not divide into `gpt_heads` {options.gpt_heads}"
        )
    return Transformer(task.outputs, task.input_shape[0], options)


class Transformer(nn.Module):
    """Bytes in, scores of the next byte out; reads up to ``context`` bytes."""

    def __init__(self, vocabulary: int, context: int, options: ModelOptions) -> None:
        super().__init__()
        width = options.gpt_width
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, options.gpt_heads) for _ in range(options.gpt_layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight  # tied: Press and Wolf 2017
        self.apply(_initialise)
        for block in self.blocks:
            for last in (block.attention.merge, block.mlp[2]):
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * options.gpt_layers))

    def forward(self, tokens: Tensor) -> Tensor:
        """``[n, t] -> [n, t, vocabulary]``."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(self.norm(x))
        return result


class Block(nn.Module):
    """Attention, then a perceptron, each after its own normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """``[n, t, width] -> [n, t, width]``."""
        x = x + self.attention(self.norm_1(x))
        result: Tensor = x + self.mlp(self.norm_2(x))
        return result


class Attention(nn.Module):
    """Causal self-attention; PyTorch picks the flash kernel where the device has one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.split = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """``[n, t, width] -> [n, t, width]``."""
        query, key, value = self.split(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: Tensor = self.merge(mixed.transpose(1, 2).flatten(-2))
        return result


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)

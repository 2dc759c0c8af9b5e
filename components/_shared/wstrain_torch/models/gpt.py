"""A pre-norm decoder transformer (Radford et al. 2019) with rotary positions, without dropout."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from wsshards.errors import UserError
from wsshards.terms import LANGUAGE_MODEL
from wstrain_torch.data import Task
from wstrain_torch.models.layers import Head, ModelOptions

LONGEST_WAVE = 10_000  # of the rotary positions, in tokens times 2π


def build_model(task: Task, options: ModelOptions) -> nn.Module:
    """Return the network ``[n, tokens] -> [n, tokens, vocabulary]``; ``[n, outputs]`` for labels.

    Raises:
        UserError: the shards are not of tokens, or the width does not divide into heads.
    """
    if task.tokenizer is None:
        raise UserError(
            f"model `gpt` needs shards of text, these are of numbers, for {task.name}", "use `cnn` or `mlp`"
        )
    if options.gpt_width % (2 * options.gpt_heads):
        raise UserError(
            f"`gpt_width` is {options.gpt_width}, not a multiple of twice `gpt_heads` {options.gpt_heads}",
            "each head takes an even share of the width",
        )
    vocabulary = task.tokenizer.vocabulary
    if task.name == LANGUAGE_MODEL:
        return Transformer(vocabulary, options)
    return TextClassifier(vocabulary, task.outputs, task.tokenizer.padding, options)


class Transformer(nn.Module):
    """Tokens in, scores of the next token out."""

    PLAN: ClassVar[dict[str, str]] = {
        "tokens": "rowwise",
        "blocks.*.attention.split": "colwise",
        "blocks.*.attention.merge": "rowwise",
        "blocks.*.grow": "colwise",
        "blocks.*.shrink": "rowwise",
        "head": "colwise_gathered",
    }

    def __init__(self, vocabulary: int, options: ModelOptions) -> None:
        super().__init__()
        width = options.gpt_width
        blocks = [Block(width, options.gpt_heads) for _ in range(options.gpt_layers)]
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        nn.init.normal_(self.head.weight, std=0.02)  # all tokens alike at the start
        for block in blocks:  # so that the sum of all blocks keeps its size at any depth
            for last in (block.attention.merge, block.shrink):
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * len(blocks)))

    def tensor_parallel_plan(self) -> dict[str, str]:
        """How ranks share each layer: heads and hidden features are divided (Shoeybi et al. 2019)."""
        return dict(self.PLAN)

    def pipeline_blocks(self) -> list[str]:
        """What the forward pass calls, one after the other."""
        return ["tokens", *(f"blocks.{number}" for number in range(len(self.blocks))), "norm", "head"]

    def forward(self, tokens: Tensor) -> Tensor:
        """``[n, t] -> [n, t, vocabulary]``."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(self.norm(x))
        return result


class TextClassifier(nn.Module):
    """The transformer below a linear layer on the mean over a text's tokens."""

    def __init__(self, vocabulary: int, outputs: int, padding: int | None, options: ModelOptions) -> None:
        super().__init__()
        body = Transformer(vocabulary, options)
        self.tokens, self.blocks, self.norm = body.tokens, body.blocks, body.norm
        self.head = Head(options.gpt_width, outputs)
        self._padding = padding

    def tensor_parallel_plan(self) -> dict[str, str]:
        """How ranks share each layer; the small head is on all of them."""
        return {name: style for name, style in Transformer.PLAN.items() if name != "head"}

    def forward(self, tokens: Tensor) -> Tensor:
        """``[n, t] -> [n, outputs]``."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if self._padding is None:
            pooled = x.mean(1)
        else:  # padding comes last, where no token before it sees it
            counted = (tokens != self._padding).unsqueeze(-1).to(x.dtype)
            pooled = (x * counted).sum(1) / counted.sum(1).clamp_min(1)
        result: Tensor = self.head(pooled)
        return result


class Block(nn.Module):
    """Attention, then a perceptron, each after its own normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_2 = nn.LayerNorm(width)
        self.grow = _linear(width, 4 * width)
        self.shrink = _linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """``[n, t, width] -> [n, t, width]``."""
        x = x + self.attention(self.norm_1(x))
        result: Tensor = x + self.shrink(functional.gelu(self.grow(self.norm_2(x))))
        return result


class Attention(nn.Module):
    """Causal self-attention; PyTorch picks the flash kernel where the device has one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.features = width // heads
        self.split = _linear(width, 3 * width)
        self.merge = _linear(width, width)
        with torch.no_grad():  # drawn as query, key and value, kept head by head: a rank can hold some heads
            drawn = self.split.weight.view(3, heads, self.features, width)
            self.split.weight.copy_(drawn.transpose(0, 1).flatten(0, 2))

    def forward(self, x: Tensor) -> Tensor:
        """``[n, t, width] -> [n, t, width]``."""
        # Heads are counted here, not remembered: this rank may hold a share of them.
        both, value = self.split(x).unflatten(-1, (-1, 3, self.features)).permute(3, 0, 2, 1, 4).split((2, 1))
        query, key = _rotate(both)  # together: their angles are the same
        mixed = functional.scaled_dot_product_attention(query, key, value[0], is_causal=True)
        result: Tensor = self.merge(mixed.transpose(1, 2).flatten(-2))
        return result


def _rotate(x: Tensor) -> Tensor:
    """Turn pairs of features by angles that grow with the position (Su et al. 2021, "RoFormer").

    Attention then sees how far apart two tokens are, which a small model learns much sooner than absolute
    places. ``[…, t, features] -> […, t, features]``.
    """
    length, half = x.shape[-2], x.shape[-1] // 2
    speed = LONGEST_WAVE ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(length, device=x.device)[:, None] * speed
    sine, cosine = angle.sin().to(x.dtype), angle.cos().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=inputs**-0.5)
    nn.init.zeros_(layer.bias)
    return layer

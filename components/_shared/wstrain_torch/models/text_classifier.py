"""A transformer that reads a text and answers once: the blocks of `gpt`, and the mean over its tokens."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from wstrain_torch.models.gpt import Block
from wstrain_torch.models.layers import ModelOptions


class TextClassifier(nn.Module):
    """Tokens in, one answer for each text out.

    A token sees those before it, so padding at the end changes nothing but the mean, which leaves it out.

    Args:
        vocabulary: number of distinct tokens.
        outputs: classes or targets.
        padding: token that fills a row up; None if rows are full.
        options: sizes of the transformer.
    """

    def __init__(self, vocabulary: int, outputs: int, padding: int | None, options: ModelOptions) -> None:
        super().__init__()
        width = options.gpt_width
        blocks = [Block(width, options.gpt_heads) for _ in range(options.gpt_layers)]
        self.padding = -1 if padding is None else padding
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        nn.init.normal_(self.head.weight, std=0.02)  # all answers alike at the start
        nn.init.zeros_(self.head.bias)
        for block in blocks:  # so that the sum of all blocks keeps its size at any depth
            for last in (block.attention.merge, block.shrink):
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * len(blocks)))

    def tensor_parallel_plan(self) -> dict[str, str]:
        """How ranks share each layer: heads and hidden features are divided (Shoeybi et al. 2019)."""
        return {
            "blocks.*.attention.split": "colwise",
            "blocks.*.attention.merge": "rowwise",
            "blocks.*.grow": "colwise",
            "blocks.*.shrink": "rowwise",
        }

    def forward(self, tokens: Tensor) -> Tensor:
        """``[n, t] -> [n, outputs]``."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        mask = (tokens != self.padding).unsqueeze(-1).to(x.dtype)
        mean = (x * mask).sum(1) / torch.clamp(mask.sum(1), min=1)
        result: Tensor = self.head(mean)
        return result

"""What a spec may say about a built-in model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Sizes of the transformer: blocks, attention heads, and the width of the residual stream."""

    gpt_layers: int = 4
    gpt_heads: int = 4
    gpt_width: int = 128

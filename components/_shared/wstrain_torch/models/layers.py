"""What the built-in models share: their sizes, and inputs scaled by constants from the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Standardised(nn.Module):
    """A model behind ``(x - mean) / deviation``.

    The constants come from one fixed sample of rows, never from a batch, so they are the same on every rank
    and are saved with the weights.

    Args:
        body: the model, ``[n, *shape] -> [n, classes]``.
        sample: training rows ``[m, *shape]``; pictures ``[m, c, h, w]`` share constants over their area.
    """

    def __init__(self, body: nn.Module, sample: Tensor) -> None:
        super().__init__()
        self.body = body
        axes = (0, 2, 3) if sample.ndim == 4 else (0,)
        deviation, mean = torch.std_mean(sample.double(), dim=axes, correction=0, keepdim=True)
        # A constant column carries nothing: leave its scale alone instead of dividing by zero.
        deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
        # Parameters that are not trained, as DDP would send buffers around before every forward pass.
        self.mean = nn.Parameter(mean[0].float(), requires_grad=False)
        self.deviation = nn.Parameter(deviation[0].float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[n, *shape] -> [n, classes]``."""
        result: Tensor = self.body((x - self.mean) / self.deviation)
        return result


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Sizes of the transformer: blocks, attention heads, and the width of the residual stream."""

    gpt_layers: int = 4
    gpt_heads: int = 4
    gpt_width: int = 128

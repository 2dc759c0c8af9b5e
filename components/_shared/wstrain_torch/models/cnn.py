"""A small residual network for images.

Normalisation is by group (Wu and He 2018), whose statistics are of one sample: the gradient of a global batch
is then the same however the batch is cut, which batch normalisation cannot promise.
"""

from __future__ import annotations

from torch import Tensor, nn

from wsshards.errors import UserError
from wstrain_torch.data import Task
from wstrain_torch.models.layers import Head, ModelOptions, Stack

WIDTH = 32
GROUPS = 8
SMALLEST = 4  # halve the picture while it stays at least this high and wide
MAX_STAGES = 4


def build_model(task: Task, options: ModelOptions) -> nn.Module:
    """Return the network ``[n, channels, height, width] -> [n, classes]``.

    Raises:
        UserError: the samples are not pictures.
    """
    del options
    if len(task.input_shape) != 3:
        raise UserError(
            "model `cnn` needs samples of shape [channels, height, width],"
            f" the shards hold {list(task.input_shape)}",
            "use `mlp` for rows of numbers",
        )
    channels, height, width = task.input_shape
    layers: list[nn.Module] = [
        nn.Conv2d(channels, WIDTH, 3, padding=1, bias=False),
        Residual(WIDTH, WIDTH, 1),
    ]
    size, features = min(height, width), WIDTH
    for _ in range(MAX_STAGES - 1):
        if size // 2 < SMALLEST:
            break
        layers.append(Residual(features, 2 * features, 2))
        size, features = size // 2, 2 * features
    layers += [nn.GroupNorm(GROUPS, features), nn.GELU(), nn.AdaptiveAvgPool2d(SMALLEST), nn.Flatten()]
    return Stack(*layers, Head(features * SMALLEST**2, task.outputs), kind=Residual)


class Residual(nn.Module):
    """Pre-activation block (He et al. 2016): two 3×3 convolutions beside a straight path."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(GROUPS, inputs),
            nn.GELU(),
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.GroupNorm(GROUPS, outputs),
            nn.GELU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        )
        same = inputs == outputs and stride == 1
        self.straight = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[n, inputs, h, w] -> [n, outputs, h/stride, w/stride]``."""
        result: Tensor = self.straight(x) + self.body(x)
        return result

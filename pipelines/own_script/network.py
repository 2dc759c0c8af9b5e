"""A small convolutional network for 8x8 grey digits."""

from torch import nn


def digit_network() -> nn.Sequential:
    """Logits of ten classes from images of shape [n, 1, 8, 8]."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.GroupNorm(8, 32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.GroupNorm(8, 64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )

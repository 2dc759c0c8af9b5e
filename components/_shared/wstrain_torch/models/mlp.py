"""A multilayer perceptron for rows of numbers (or for small images, flattened)."""

from __future__ import annotations

import math

from torch import nn

from wsshards.terms import REGRESSION
from wstrain_torch.data import Task
from wstrain_torch.models.layers import Head, ModelOptions, Stack

WIDTH = 256


def build_model(task: Task, options: ModelOptions) -> nn.Module:
    """Return two hidden layers with layer normalisation: ``[n, …] -> [n, outputs]``."""
    del options
    return Stack(
        nn.Flatten(),
        nn.Linear(math.prod(task.input_shape), WIDTH),
        nn.LayerNorm(WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, WIDTH),
        nn.LayerNorm(WIDTH),
        nn.GELU(),
        # The squared error has no bound on its slope: behind a usual layer the step of a classifier diverges.
        Head(WIDTH, task.outputs) if task.name == REGRESSION else nn.Linear(WIDTH, task.outputs),
        kind=nn.Linear,
    )

"""A multilayer perceptron for rows of numbers; ``wstrain_torch.models.mlp`` in Keras."""

from __future__ import annotations

import math
from typing import Any

import keras

from wsshards.terms import REGRESSION
from wstrain.data.sample_spec import SampleSpec
from wstrain_tensorflow.models import layers

WIDTH = 256


def build_model(samples: SampleSpec, x: Any, sizes: Any) -> Any:
    """Two hidden layers with layer normalisation: ``[n, …] -> [n, outputs]``."""
    del sizes
    x = keras.layers.Flatten()(x)
    inputs = math.prod(samples.input_shape)
    for _ in range(2):
        x = layers.gelu()(layers.layer_norm()(layers.dense(inputs, WIDTH)(x)))
        inputs = WIDTH
    # The squared error has no bound on its slope: behind a usual layer the step of a classifier diverges.
    head = layers.Head if samples.name == REGRESSION else layers.dense
    return head(WIDTH, samples.outputs)(x)

"""A multilayer perceptron for rows of numbers; ``wstrain_torch.models.mlp`` in Keras."""

from __future__ import annotations

import math
from typing import Any

import keras

from wstrain.data.sample_spec import SampleSpec
from wstrain_tensorflow.models import layers

WIDTH = 256


def build_model(samples: SampleSpec, x: Any, sizes: Any) -> Any:
    """Two hidden layers with layer normalisation: ``[n, …] -> [n, classes]``."""
    del sizes
    x = keras.layers.Flatten()(x)
    inputs = math.prod(samples.input_shape)
    for _ in range(2):
        x = layers.gelu()(layers.layer_norm()(layers.dense(inputs, WIDTH)(x)))
        inputs = WIDTH
    return layers.dense(WIDTH, samples.outputs)(x)

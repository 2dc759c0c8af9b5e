"""A multilayer perceptron for rows of numbers; ``wstrain_torch.models.mlp`` in Keras."""

from __future__ import annotations

import math
from typing import Any

import keras

from wsshards.errors import UserError
from wstrain.data.sample_spec import SampleSpec
from wstrain_tensorflow.models import layers

WIDTH = 256


def build_model(samples: SampleSpec, x: Any, sizes: Any) -> Any:
    """Two hidden layers with layer normalisation: ``[n, …] -> [n, outputs]``.

    Raises:
        UserError: the samples are tokens.
    """
    del sizes
    if samples.reads_tokens:
        raise UserError("model `mlp` needs rows of numbers, the shards hold tokens", "use `gpt`")
    x = keras.layers.Flatten()(x)
    inputs = math.prod(samples.input_shape)
    for _ in range(2):
        x = layers.gelu()(layers.layer_norm()(layers.dense(inputs, WIDTH)(x)))
        inputs = WIDTH
    return layers.dense(WIDTH, samples.outputs)(x)

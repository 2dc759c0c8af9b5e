"""A small residual network for images; ``wstrain_torch.models.cnn`` in Keras.

Shards hold pictures as ``[channels, height, width]``; TensorFlow's kernels for CPUs want channels last.
"""

from __future__ import annotations

from typing import Any

import keras

from wsshards.errors import UserError
from wstrain.data.sample_spec import SampleSpec
from wstrain_tensorflow.models import layers

WIDTH = 32
SMALLEST = 4  # halve the picture while it stays at least this high and wide
MAX_STAGES = 4


def build_model(samples: SampleSpec, x: Any, sizes: Any) -> Any:
    """``[n, channels, height, width] -> [n, classes]``.

    Raises:
        UserError: the samples are not pictures.
    """
    del sizes
    if len(samples.input_shape) != 3:
        raise UserError(
            "model `cnn` needs samples of shape [channels, height, width],"
            f" the shards hold {list(samples.input_shape)}",
            "use `mlp` for rows of numbers",
        )
    channels, height, width = samples.input_shape
    x = keras.layers.Permute((2, 3, 1))(x)
    x = layers.convolution(channels, WIDTH, 3)(keras.layers.ZeroPadding2D(1)(x))
    x = _residual(x, WIDTH, WIDTH, 1)
    size, features = min(height, width), WIDTH
    for _ in range(MAX_STAGES - 1):
        if size // 2 < SMALLEST:
            break
        x = _residual(x, features, 2 * features, 2)
        size, features = size // 2, 2 * features
    x = layers.gelu()(layers.group_norm()(x))
    if tuple(x.shape[1:3]) != (SMALLEST, SMALLEST):
        x = layers.AveragePool(SMALLEST)(x)
    x = keras.layers.Flatten()(keras.layers.Permute((3, 1, 2))(x))
    return layers.Head(features * SMALLEST**2, samples.outputs)(x)


def _residual(x: Any, inputs: int, outputs: int, stride: int) -> Any:
    """Pre-activation block (He et al. 2016): two 3×3 convolutions beside a straight path."""
    y = layers.gelu()(layers.group_norm()(x))
    y = layers.convolution(inputs, outputs, 3, stride)(keras.layers.ZeroPadding2D(1)(y))
    y = layers.gelu()(layers.group_norm()(y))
    y = layers.convolution(outputs, outputs, 3)(keras.layers.ZeroPadding2D(1)(y))
    same = inputs == outputs and stride == 1
    return (x if same else layers.convolution(inputs, outputs, 1, stride)(x)) + y

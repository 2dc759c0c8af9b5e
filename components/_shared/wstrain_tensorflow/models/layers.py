"""Layers that Keras lacks, and PyTorch's initial values, so that both frameworks start alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

GROUPS = 8
EPSILON = 1e-5  # of normalisations, as PyTorch's


def dense(inputs: int, outputs: int) -> Any:
    """A linear layer that starts as PyTorch's: uniform within ±1/√inputs, weights and biases."""
    bound = 1 / math.sqrt(inputs)
    return keras.layers.Dense(
        outputs,
        kernel_initializer=keras.initializers.RandomUniform(-bound, bound),
        bias_initializer=keras.initializers.RandomUniform(-bound, bound),
    )


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> Any:
    """A convolution without bias, on ``[n, h, w, c]``, that starts as PyTorch's."""
    bound = 1 / math.sqrt(inputs * size * size)
    return keras.layers.Conv2D(
        outputs,
        size,
        stride,
        use_bias=False,
        kernel_initializer=keras.initializers.RandomUniform(-bound, bound),
    )


def layer_norm() -> Any:
    """Layer normalisation over the last axis."""
    return keras.layers.LayerNormalization(epsilon=EPSILON)


def group_norm() -> Any:
    """Group normalisation of ``[n, h, w, c]`` (Wu and He 2018)."""
    return keras.layers.GroupNormalization(GROUPS, axis=-1, epsilon=EPSILON)


def gelu() -> Any:
    """The exact Gaussian error linear unit."""
    return keras.layers.Activation(_gelu)


def _gelu(x: Any) -> Any:
    return ops.gelu(x, approximate=False)


class Standardise(keras.layers.Layer):  # type: ignore[misc]
    """``(x - mean) / deviation``, by constants that are saved with the weights but not trained.

    They come from one fixed sample of rows, never from a batch, so they are the same in every replica.

    Args:
        sample: training rows ``[m, *shape]``; pictures ``[m, c, h, w]`` share constants over their area.
        scaled: for each number of a row whether it is scaled; empty for all.
    """

    def __init__(self, sample: np.ndarray[Any, Any], scaled: Sequence[bool] = ()) -> None:
        super().__init__(dtype="float32")
        axes = (0, 2, 3) if sample.ndim == 4 else (0,)
        mean, deviation = (
            sample.mean(axes, np.float64, keepdims=True),
            sample.std(axes, np.float64, keepdims=True),
        )
        # A constant column carries nothing: leave its scale alone instead of dividing by zero.
        deviation = np.where(deviation > 0, deviation, 1.0)
        if scaled:  # what is 0 or 1 stays so: the value of a rare category would become huge
            mean, deviation = np.where(scaled, mean, 0.0), np.where(scaled, deviation, 1.0)
        self._mean = self._constant("mean", mean[0])
        self._deviation = self._constant("deviation", deviation[0])

    def call(self, x: Any) -> Any:
        """``[n, *shape] -> [n, *shape]``."""
        return (x - self._mean) / self._deviation

    def _constant(self, name: str, value: np.ndarray[Any, Any]) -> Any:
        weight = self.add_weight(shape=value.shape, trainable=False, name=name, dtype="float32")
        weight.assign(value.astype(np.float32))
        return weight


class AveragePool(keras.layers.Layer):  # type: ignore[misc]
    """Mean over bins of as even a size as can be: ``[n, h, w, c] -> [n, size, size, c]``.

    As PyTorch's ``AdaptiveAvgPool2d``: bin ``i`` goes from ``⌊i·h/size⌋`` to ``⌈(i+1)·h/size⌉``.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def call(self, x: Any) -> Any:
        """Average within bins, as two products with constant matrices."""
        rows, columns = (ops.cast(_bins(side, self._size), x.dtype) for side in x.shape[1:3])
        return ops.einsum("nhwc,ih,jw->nijc", x, rows, columns)


class MeanOverTokens(keras.layers.Layer):  # type: ignore[misc]
    """Mean over the tokens of a text that are not padding: ``[n, t, width] -> [n, width]``."""

    def __init__(self, padding: int | None) -> None:
        super().__init__()
        self._padding = padding

    def call(self, x: Any, tokens: Any) -> Any:
        """Average over the tokens."""
        if self._padding is None:
            return ops.mean(x, axis=1)
        counted = ops.cast(ops.not_equal(tokens, self._padding), x.dtype)
        return ops.sum(x * counted[..., None], axis=1) / ops.maximum(ops.sum(counted, axis=1), 1)[..., None]

    def compute_output_shape(self, x_shape: Any, tokens_shape: Any) -> Any:
        """One row for each text."""
        del tokens_shape
        return (x_shape[0], x_shape[2])


class Head(keras.layers.Layer):  # type: ignore[misc]
    """A linear layer that divides by the root of its inputs in the forward pass instead of at the start.

    See ``wstrain_torch.models.cnn``: a learning rate that grew with the batch stays stable.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self._scale = 1 / math.sqrt(inputs)
        start = keras.initializers.RandomNormal(stddev=0.5)
        self._weights_ = self.add_weight(shape=(inputs, outputs), initializer=start, name="kernel")
        self._bias = self.add_weight(shape=(outputs,), initializer="zeros", name="bias")

    def call(self, x: Any) -> Any:
        """``[n, inputs] -> [n, outputs]``."""
        return ops.matmul(x * self._scale, self._weights_) + self._bias


def _bins(side: int, size: int) -> np.ndarray[Any, Any]:
    matrix = np.zeros((size, side), np.float32)
    for number in range(size):
        begin, end = number * side // size, -(-(number + 1) * side // size)
        matrix[number, begin:end] = 1 / (end - begin)
    return matrix

"""A pre-norm decoder transformer with rotary positions; ``wstrain_torch.models.gpt`` in Keras."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from wsshards.errors import UserError
from wsshards.terms import LANGUAGE_MODEL
from wstrain.data.sample_spec import SampleSpec
from wstrain_tensorflow.models import layers

LONGEST_WAVE = 10_000  # of the rotary positions, in tokens times 2π


def build_model(samples: SampleSpec, tokens: Any, sizes: Any) -> Any:
    """``[n, t] -> [n, t, vocabulary]``; of texts with labels to ``[n, outputs]``.

    Raises:
        UserError: the shards are not of tokens, or the width does not divide into heads.
    """
    if samples.tokenizer is None:
        raise UserError(
            f"model `gpt` needs shards of text, these are of numbers, for {samples.name}",
            "use `cnn` or `mlp`",
        )
    width, heads, blocks = sizes.gpt_width, sizes.gpt_heads, sizes.gpt_layers
    if width % (2 * heads):
        raise UserError(
            f"`gpt_width` is {width}, not a multiple of twice `gpt_heads` {heads}",
            "each head takes an even share of the width",
        )
    x = keras.layers.Embedding(
        samples.tokenizer.vocabulary, width, embeddings_initializer=_normal(width**-0.5)
    )(tokens)
    last = 0.02 / math.sqrt(2 * blocks)  # so that the sum of all blocks keeps its size at any depth
    for _ in range(blocks):
        mixed = Attention(heads)(_linear(3 * width, width**-0.5)(layers.layer_norm()(x)))
        x = x + _linear(width, last)(mixed)
        grown = layers.gelu()(_linear(4 * width, width**-0.5)(layers.layer_norm()(x)))
        x = x + _linear(width, last)(grown)
    x = layers.layer_norm()(x)
    if samples.name != LANGUAGE_MODEL:
        pooled = layers.MeanOverTokens(samples.tokenizer.padding)(x, tokens)
        return layers.Head(width, samples.outputs)(pooled)
    return keras.layers.Dense(samples.outputs, use_bias=False, kernel_initializer=_normal(0.02))(x)


class Attention(keras.layers.Layer):  # type: ignore[misc]
    """Causal self-attention: ``[n, t, heads × (query, key, value)] -> [n, t, width]``."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self._heads = heads

    def call(self, x: Any) -> Any:
        """Mix each token with those before it."""
        length, features = ops.shape(x)[1], x.shape[-1] // 3 // self._heads
        parts = ops.reshape(x, (-1, length, self._heads, 3, features))
        query, key, value = (ops.transpose(parts[:, :, :, part], (0, 2, 1, 3)) for part in range(3))
        query, key = _rotate(query, length), _rotate(key, length)
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        scores = ops.cast(scores, "float32") / math.sqrt(features)
        places = ops.arange(length)
        scores = ops.where(places[None, :] <= places[:, None], scores, -1e9)
        mixed = ops.matmul(ops.cast(ops.softmax(scores), value.dtype), value)
        return ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (-1, length, self._heads * features))

    def compute_output_shape(self, shape: Any) -> Any:
        """A third of the features."""
        return (*shape[:-1], shape[-1] // 3)


def _rotate(x: Any, length: Any) -> Any:
    """Turn pairs of features by angles that grow with the position (Su et al. 2021, "RoFormer")."""
    half = x.shape[-1] // 2
    speed = LONGEST_WAVE ** (-ops.arange(half, dtype="float32") / half)
    angle = ops.cast(ops.arange(length), "float32")[:, None] * speed
    sine, cosine = ops.cast(ops.sin(angle), x.dtype), ops.cast(ops.cos(angle), x.dtype)
    first, second = x[..., :half], x[..., half:]
    return ops.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)


def _linear(outputs: int, deviation: float) -> Any:
    return keras.layers.Dense(outputs, kernel_initializer=_normal(deviation))


def _normal(deviation: float) -> Any:
    return keras.initializers.RandomNormal(stddev=deviation)

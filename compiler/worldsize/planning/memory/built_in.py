"""The built-in models in closed form: every weight with its shape, and what every layer keeps.

What a layer keeps follows from its gradient. A linear or convolution layer needs its input; GELU its input;
a normalisation its input, and a mean and a deviation for each thing normalised; attention by the flash
algorithm query, key, value, result and one number a row (Dao et al. 2022, arXiv:2205.14135). Korthikanti et
al. 2022 (arXiv:2205.05198), section 4, count a transformer layer the same way, with dropout and stored
scores.
"""

from __future__ import annotations

import math
from functools import lru_cache

from worldsize.planning.memory.network import Kept, Network, Part, Weight

# As wstrain_torch/models/mlp.py and cnn.py have them; a test compares every shape.
MLP_WIDTH = 256
CNN_WIDTH, CNN_GROUPS, CNN_SMALLEST, CNN_MAX_STAGES = 32, 8, 4, 4
VOCABULARY = 256
NAMES = ("mlp", "cnn", "gpt")
_REMEMBERED = 8  # models: many steps of a pipeline train the same one


@lru_cache(maxsize=_REMEMBERED)
def mlp(input_shape: tuple[int, ...], classes: int) -> Network:
    """Two hidden layers with layer normalisation, behind fixed input scales."""
    inputs, width = math.prod(input_shape), MLP_WIDTH
    parts = [
        _scales(input_shape),
        Part("1", _linear("body.1", inputs, width), Kept(narrow=inputs), width, inputs, block=True),
        Part("2", _norm("body.2", width), Kept(normed=2 * width, wide=2), width),
        Part("4", _linear("body.4", width, width), Kept(narrow=width), width, width, block=True),
        Part("5", _norm("body.5", width), Kept(normed=2 * width, wide=2), width),
        Part("7", _linear("body.7", width, classes), Kept(narrow=width), width, width, block=True),
        _loss(1, classes),
    ]
    return Network("mlp", tuple(parts), 4 * inputs)


@lru_cache(maxsize=_REMEMBERED)
def cnn(input_shape: tuple[int, ...], classes: int) -> Network | None:
    """A residual network for pictures ``[channels, height, width]``; None for anything else."""
    if len(input_shape) != 3:
        return None
    channels, height, width = input_shape
    features, number = CNN_WIDTH, 0
    first = _convolution("body.0", channels, features, 3)
    parts = [_scales(input_shape), Part("0", (first,), Kept(narrow=channels * height * width))]
    small = min(height, width)
    while number < CNN_MAX_STAGES:
        stride = 1 if number == 0 else 2
        if stride == 2:
            if small // 2 < CNN_SMALLEST:
                break
            small //= 2
        number += 1
        outputs = features * stride
        before, height, width = height * width, -(-height // stride), -(-width // stride)
        parts.append(_residual(f"body.{number}", features, outputs, before=before, after=height * width))
        features = outputs
    area, last = height * width, features * CNN_SMALLEST**2
    kept = Kept(normed=2 * features * area, wide=2 * CNN_GROUPS)
    parts.append(Part("norm", _norm(f"body.{number + 1}", features), kept, features * area))
    head = f"body.{number + 5}"
    weights = (Weight(f"{head}.weight", (classes, last)), Weight(f"{head}.bias", (classes,)))
    parts += [Part("head", weights, Kept(narrow=last + features * area), last), _loss(1, classes)]
    return Network("cnn", tuple(parts), 4 * math.prod(input_shape))


@lru_cache(maxsize=_REMEMBERED)
def gpt(tokens: int, layers: int, heads: int, width: int, vocabulary: int = VOCABULARY) -> Network:
    """The transformer on rows of ``tokens`` tokens; bytes have a vocabulary of 256."""
    embedding = Weight("tokens.weight", (vocabulary, width), dimension=0, looked_up=True)
    parts = [Part("tokens", (embedding,), Kept(wide=2 * tokens))]  # token numbers take 8 bytes each
    parts += [_block(f"blocks.{number}", tokens, heads, width) for number in range(layers)]
    parts.append(Part("norm", _norm("norm", width), Kept(wide=tokens * (width + 2)), tokens * width))
    head = Weight("head.weight", (vocabulary, width), dimension=0)
    parts.append(Part("head", (head,), Kept(narrow=tokens * width), tokens * width))
    return Network("gpt", (*parts, _loss(tokens, vocabulary)), 8 * tokens)


def _block(name: str, tokens: int, heads: int, width: int) -> Part:
    """Attention and perceptron.

    Of each token stay: the inputs of two normalisations, fp32, with two numbers each; their results; query
    and key, turned, and the whole of what they were cut from, as the value is a view of it (5 widths); what
    attention returns, twice, as it is also brought into another order; the perceptron's hidden features
    before and after GELU (8 widths); one number a head. The angles of query and key are made once.
    """
    kept = Kept(
        wide=tokens * (2 * width + 4),
        narrow=tokens * 2 * width,
        shared_wide=tokens * heads,
        shared_narrow=tokens * 15 * width,
        once=tokens * (width // heads),
    )
    weights = (
        *_norm(f"{name}.norm_1", width),
        *_linear(f"{name}.attention.split", width, 3 * width, 0),
        *_linear(f"{name}.attention.merge", width, width, 1),
        *_norm(f"{name}.norm_2", width),
        *_linear(f"{name}.grow", width, 4 * width, 0),
        *_linear(f"{name}.shrink", 4 * width, width, 1),
    )
    return Part(name, weights, kept, tokens * 8 * width, tokens * width, block=True)


def _residual(name: str, inputs: int, outputs: int, *, before: int, after: int) -> Part:
    """Two convolutions, each after a normalisation and GELU; ``before`` and ``after`` are areas."""
    weights = [
        *_norm(f"{name}.body.0", inputs),
        _convolution(f"{name}.body.2", inputs, outputs, 3),
        *_norm(f"{name}.body.3", outputs),
        _convolution(f"{name}.body.5", outputs, outputs, 3),
    ]
    if inputs != outputs:
        weights.append(_convolution(f"{name}.straight", inputs, outputs, 1))
    values = inputs * before + outputs * after
    kept = Kept(normed=2 * values, narrow=values, wide=4 * CNN_GROUPS)
    return Part(name, tuple(weights), kept, 2 * values, inputs * before, block=True)


def _loss(rows: int, classes: int) -> Part:
    """Cross-entropy keeps the logarithms, fp32, and targets; their gradients are as large, twice."""
    return Part("loss", (), Kept(wide=rows * (classes + 2)), 2 * rows * classes)


def _scales(input_shape: tuple[int, ...]) -> Part:
    """Mean and deviation of the inputs, which are not trained; of pictures one a channel."""
    shape = (input_shape[0], 1, 1) if len(input_shape) == 3 else input_shape
    names = ("mean", "deviation")
    return Part("scales", tuple(Weight(name, shape, trained=False) for name in names))


def _linear(name: str, inputs: int, outputs: int, dimension: int | None = None) -> tuple[Weight, ...]:
    bias = 0 if dimension == 0 else None  # a row-wise layer adds its bias once, after the sum
    return (
        Weight(f"{name}.weight", (outputs, inputs), dimension=dimension),
        Weight(f"{name}.bias", (outputs,), dimension=bias),
    )


def _norm(name: str, width: int) -> tuple[Weight, ...]:
    return Weight(f"{name}.weight", (width,)), Weight(f"{name}.bias", (width,))


def _convolution(name: str, inputs: int, outputs: int, size: int) -> Weight:
    return Weight(f"{name}.weight", (outputs, inputs, size, size))

"""What a model reads, what it learns and what its outputs mean, as TensorFlow's operations."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import tensorflow as tf

from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION
from wstrain.data.sample_spec import SampleSpec
from wstrain.data.table_encoding import (
    DAYS_PER_WEEK,
    DAYS_PER_YEAR,
    EPOCH_WEEKDAY,
    SECONDS_PER_DAY,
    TableEncoding,
)
from wstrain.hooks import Hooks

_PREPARE = 0x70726570  # keeps the random numbers of `prepare` apart from those of the model


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(SampleSpec):
    """A task of a TensorFlow training.

    Attributes:
        hooks: the user's own functions.
        label_smoothing: share of a target's probability that all classes have in equal parts.
        class_weights: of each class in the loss; empty for none.
    """

    hooks: Hooks | None = None
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] = ()


def make_task(samples: SampleSpec, hooks: Hooks | None = None, label_smoothing: float = 0.0) -> Task:
    """Return the task of such samples."""
    values = {field.name: getattr(samples, field.name) for field in fields(samples)}
    return Task(**values, hooks=hooks, label_smoothing=label_smoothing)


def encode_inputs(samples: Task, rows: Any, seed: Any = None) -> Any:
    """Return what the model gets for rows as stored, ``[n, …]``: tokens, or numbers, a table's encoded.

    The user's ``prepare`` gets ``seed``, ``[2]`` int64, in the training only.
    """
    if samples.reads_tokens:
        inputs = tf.cast(rows, tf.int32)
    else:
        inputs = tf.cast(rows, tf.float32)
        inputs = inputs if samples.encoding is None else _encode_table(samples.encoding, inputs)
    return hook_inputs(samples, inputs, seed)


def hook_inputs(samples: Task, inputs: Any, seed: Any = None) -> Any:
    """Let the user's ``prepare`` change inputs, ``[n, …]``."""
    if samples.hooks is None or samples.hooks.prepare is None:
        return inputs
    return samples.hooks.call_prepare(inputs, None if seed is None else seed + _PREPARE)


def compute_loss(samples: Task, scores: Any, targets: Any) -> Any:
    """Return the mean loss over samples (and tokens, targets or labels), as ``wstrain_torch.data.Task.loss``.

    Args:
        samples: inputs and outputs of the model.
        scores: ``[n, …, outputs]``.
        targets: from :func:`wstrain_tensorflow.data.prepare_rows`.
    """
    scores, targets = tf.cast(scores, tf.float32), tf.convert_to_tensor(targets)
    if samples.hooks is not None and samples.hooks.loss is not None:
        return samples.hooks.call("loss", scores, targets)
    if samples.name == REGRESSION:
        return tf.reduce_mean(tf.math.squared_difference(scores, targets))
    if samples.name == MULTI_LABEL:
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(targets, scores))
    smoothing = samples.label_smoothing  # Szegedy et al. 2016, section 7
    if samples.class_weights:
        shares = targets if targets.dtype.is_floating else tf.one_hot(targets, samples.outputs)
        weights = np.array(samples.class_weights, np.float32)
        shares = ((1.0 - smoothing) * shares + smoothing / samples.outputs) * weights
        # Not `softmax_cross_entropy_with_logits`, whose gradient is right only where shares have the sum 1.
        return -tf.reduce_mean(tf.reduce_sum(shares * tf.nn.log_softmax(scores), -1))
    if targets.dtype.is_floating:  # probabilities
        targets = (1.0 - smoothing) * targets + smoothing / samples.outputs
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, scores))
    losses = token_losses(scores, targets)
    if smoothing:
        uniform = -tf.reduce_mean(tf.nn.log_softmax(scores), -1)
        losses = (1.0 - smoothing) * losses + smoothing * uniform
    padding = samples.tokenizer.padding if samples.tokenizer and samples.name == LANGUAGE_MODEL else None
    if padding is not None:
        # Divided by all tokens, so that every micro-batch weighs the same, however full its rows are.
        losses = tf.where(targets == padding, 0.0, losses)
    return tf.reduce_mean(losses)


def token_losses(scores: Any, targets: Any) -> Any:
    """Return the cross-entropy in nats of each target: ``[n, …, classes]`` and ``[n, …]`` to ``[n, …]``."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, scores)


def make_predictions(samples: SampleSpec, scores: Any) -> Any:
    """Return what the exported model answers, float32, as ``wstrain_torch.data.Task.predictions``."""
    scores = tf.cast(scores, tf.float32)
    if samples.name == CLASSIFICATION:
        return tf.nn.softmax(scores)
    if samples.name == MULTI_LABEL:
        return tf.math.sigmoid(scores)
    if samples.name == REGRESSION:
        deviation = np.array(samples.target_deviation, np.float32)
        return scores * deviation + np.array(samples.target_mean, np.float32)
    return scores


def _encode_table(encoding: TableEncoding, rows: Any) -> Any:
    """Encode stored rows ``[n, width]`` as :mod:`wstrain.data.table_encoding` describes: ``[n, encoded]``."""
    absent = tf.math.is_nan(rows)
    filled = tf.where(absent, np.array(encoding.fill, np.float32), rows)
    days = _pick(filled, encoding.days)
    seconds = _pick(filled, [position + 1 for position in encoding.days])
    turns = [days / DAYS_PER_YEAR, (days + EPOCH_WEEKDAY) / DAYS_PER_WEEK, seconds / SECONDS_PER_DAY]
    angles = [2 * math.pi * (turn - tf.floor(turn)) for turn in turns]
    values = np.array([value for _, value in encoding.categories], np.float32)
    groups = [
        _pick(filled, encoding.plain),
        tf.cast(_pick(rows, [position for position, _ in encoding.categories]) == values, tf.float32),
        tf.cast(_pick(absent, encoding.missing), tf.float32),
        (days - np.array(encoding.mean_days, np.float32)) / DAYS_PER_YEAR,
        *(tf.sin(angle) for angle in angles),
        *(tf.cos(angle) for angle in angles),
    ]
    return _pick(tf.concat(groups, axis=1), encoding.order)


def _pick(values: Any, positions: Any) -> Any:
    return tf.gather(values, np.array(positions, np.int32), axis=1)

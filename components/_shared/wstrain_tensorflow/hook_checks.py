"""Calls the user's hooks once on a few training rows, so that they fail now rather than in the first step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from wsshards.errors import UserError
from wsshards.reader import ShardReader
from wstrain.data.sampler import GlobalBatchSampler
from wstrain.hooks import Hooks, warn_unless_mean
from wstrain_tensorflow.data import prepare_rows
from wstrain_tensorflow.task import Task, compute_loss, encode_inputs

ROWS = 4  # two halves of two: the loss of one row may be undefined


def expect_hooks(
    task: Task, hooks: Hooks, model: Any, reader: ShardReader, sampler: GlobalBatchSampler
) -> None:
    """Check what ``prepare`` and ``loss`` return, and warn of a loss that is not a mean over samples.

    Args:
        task: with the hooks.
        hooks: the user's functions.
        model: outside of a strategy; its state is not changed.
        reader: the training rows.
        sampler: gives the rows to try.

    Raises:
        UserError: a hook fails, or returns something else.
    """
    rows, targets = prepare_rows(task, *reader.gather(sampler.some_rows(ROWS)))
    inputs = None
    for seed in (tf.constant([0, 0], tf.int64), None):
        inputs = encode_inputs(task, rows, seed)
        if not tf.is_tensor(inputs) or inputs.shape.rank == 0 or inputs.shape[0] != len(rows):
            returned = list(inputs.shape) if tf.is_tensor(inputs) else f"`{type(inputs).__name__}`"
            raise UserError(
                f"`prepare` in `{hooks.file}` returned {returned} for {len(rows)} samples",
                "it must return a tensor whose first dimension is that of the samples",
            )
    if hooks.loss is None:
        return
    scores, wanted = model(inputs, training=False), tf.constant(targets)
    loss = compute_loss(task, scores, wanted)
    if not tf.is_tensor(loss) or loss.shape.rank or not loss.dtype.is_floating:
        returned = list(loss.shape) if tf.is_tensor(loss) else f"`{type(loss).__name__}`"
        raise UserError(
            f"`loss` in `{hooks.file}` returned {returned}, not the mean loss as a tensor without dimensions",
            "end it with `tf.reduce_mean`",
        )
    half = len(targets) // 2
    if half and len(targets) == 2 * half:
        parts = [compute_loss(task, scores[part], wanted[part]) for part in (slice(half), slice(half, None))]
        warn_unless_mean(hooks, len(targets), float(loss), (float(parts[0]), float(parts[1])))

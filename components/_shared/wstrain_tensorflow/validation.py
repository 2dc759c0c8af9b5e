"""Validation while a model trains: workers measure it on the validation rows, exactly at any number of them.

A copy of the model outside the strategy gets the weights, as for the export. So a forward pass needs no other
worker, and nothing of the training changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from wsmetrics.metrics import Metrics, make_shard_metrics
from wsshards.terms import LANGUAGE_MODEL, REGRESSION
from wstrain import validator
from wstrain.health.heartbeat import Phase
from wstrain.validation import cut_blocks, share_blocks
from wstrain.validator import MeasuredBlock, OwnMeasures
from wstrain_tensorflow.data import prepare_rows
from wstrain_tensorflow.launch.rendezvous import Rendezvous
from wstrain_tensorflow.metric_states import gather_states
from wstrain_tensorflow.models.network import Network
from wstrain_tensorflow.task import Task, compute_loss, encode_inputs, make_predictions, token_losses


@dataclass(kw_only=True)
class Validator(validator.Validator):
    """Measures a Keras model.

    Args:
        samples: the task.
        group: the workers that train in step.
        network: the trained weights.
        averages: what stands for the trained weights; empty for themselves.
        model: the copy outside the strategy.
        worker: this one among them.
        workers: their number.
    """

    samples: Task
    group: Rendezvous
    network: Network
    averages: Sequence[Any] = ()
    model: Any
    worker: int
    workers: int

    def __post_init__(self) -> None:
        self._forward = tf.function(self._answer, reduce_retracing=True)
        self._scores = tf.function(self._score, reduce_retracing=True)

    def _gather(self, value: Any) -> list[Any]:
        return gather_states(self.group, value)

    def _measure(self, own: OwnMeasures) -> Metrics:
        assign_weights(self.model, read_weights(self.network, self.averages))
        metrics = make_shard_metrics(self.reader.manifest, logits=True)
        blocks = cut_blocks(len(self.reader), self.rows_at_once)
        with self.group.together():
            for number, counts in share_blocks(len(blocks), self.worker, self.workers):
                self.heartbeat.mark(Phase.VALIDATING, number)
                if counts:  # a forward pass needs no other worker, so none runs only to keep them in step
                    self._add(metrics, own, number, blocks[number])
        self.heartbeat.mark(Phase.VALIDATING, len(blocks))
        total = make_shard_metrics(self.reader.manifest, logits=True)
        total.merge(gather_states(self.group, metrics.state()))
        return total

    def _add(self, metrics: Any, own: OwnMeasures, number: int, rows: range) -> None:
        # A short block repeats its rows, so that every block has the shape that was traced.
        indices = rows.start + np.arange(self.rows_at_once, dtype=np.int64) % len(rows)
        features, labels = self.reader.gather(indices)
        inputs, targets = prepare_rows(self.samples, features, labels)
        outputs = self._forward(tf.constant(inputs), tf.constant(targets))
        if self.samples.name == LANGUAGE_MODEL:
            losses, right = (part.numpy()[: len(rows)] for part in outputs)
            padding = self.samples.tokenizer.padding if self.samples.tokenizer else None
            counted = targets[: len(rows)] != (-1 if padding is None else padding)
            metrics.add_losses(losses[counted], right[counted], rows=len(rows))
        else:
            metrics.add(outputs.numpy()[: len(rows)], labels[: len(rows)] if labels is not None else None)
        if own.wants_loss or own.wants_outputs:
            scores, stored = self._scores(tf.constant(inputs))[: len(rows)], labels
            wanted = own.wants_outputs and stored is not None
            own.add(
                MeasuredBlock(
                    number,
                    len(rows),
                    float(compute_loss(self.samples, scores, tf.constant(targets[: len(rows)])))
                    if own.wants_loss
                    else None,
                    make_predictions(self.samples, scores).numpy() if wanted else None,
                    stored[: len(rows)] if wanted and stored is not None else None,
                )
            )

    def _answer(self, inputs: Any, targets: Any) -> Any:
        scores = self._score(inputs)
        if self.samples.name == LANGUAGE_MODEL:  # the scores of all tokens are many
            return token_losses(scores, targets), tf.argmax(scores, -1, targets.dtype) == targets
        return make_predictions(self.samples, scores) if self.samples.name == REGRESSION else scores

    def _score(self, inputs: Any) -> Any:
        return tf.cast(self.model(encode_inputs(self.samples, inputs), training=False), tf.float32)


def read_weights(network: Network, averages: Sequence[Any] = ()) -> list[Any]:
    """Return the weights of the network; called on every worker, as moving averages are their means.

    Args:
        network: the model.
        averages: what stands for its trained weights; empty for themselves.
    """
    return [variable.numpy() for variable in (*(averages or network.trained), *network.kept)]


def assign_weights(model: Any, values: Sequence[Any]) -> None:
    """Give a model outside the strategy the weights of the network in it."""
    for target, value in zip((*model.trainable_variables, *model.non_trainable_weights), values, strict=True):
        target.assign(value)

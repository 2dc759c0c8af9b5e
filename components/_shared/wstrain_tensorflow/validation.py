"""Validation while a model trains: workers measure it on the validation rows, exactly at any number of them.

A copy of the model outside the strategy gets the weights, as for the export. So a forward pass needs no other
worker, and nothing of the training changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from wsmetrics.metrics import make_shard_metrics
from wsshards.manifest import LANGUAGE_MODEL, REGRESSION
from wsshards.reader import ShardReader
from wstrain.data.sample_spec import SampleSpec
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.tracking.step_recorder import StepRecorder
from wstrain.validation import ValidationController, cut_blocks, share_blocks
from wstrain_tensorflow.checkpoint import CheckpointSaver
from wstrain_tensorflow.data import prepare_rows
from wstrain_tensorflow.launch.rendezvous import Rendezvous
from wstrain_tensorflow.metric_states import gather_states
from wstrain_tensorflow.models.network import Network
from wstrain_tensorflow.task import encode_inputs, make_predictions, token_losses


@dataclass(kw_only=True)
class Validator:
    """Validates when it is due, saves what is the best so far, and says when to stop.

    Args:
        controller: when a validation is due, and what follows from it.
        reader: the validation rows.
        samples: how rows become inputs and targets.
        network: the trained weights.
        model: the copy outside the strategy.
        rendezvous: the workers that train in step; each takes its share of the rows.
        worker: this one among them.
        workers: their number.
        recorder: reports the metrics.
        saver: saves the best checkpoint.
        heartbeat: shows this worker's progress to the others.
        rows_at_once: rows of a block, as many as the training takes at once.
        settle: waits for updates that have been scheduled.
    """

    controller: ValidationController
    reader: ShardReader
    samples: SampleSpec
    network: Network
    model: Any
    rendezvous: Rendezvous
    worker: int
    workers: int
    recorder: StepRecorder
    saver: CheckpointSaver
    heartbeat: Heartbeat
    rows_at_once: int
    settle: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._forward = tf.function(self._answer, reduce_retracing=True)

    def step(self, done: int) -> bool:
        """Validate if it is due after ``done`` steps; return whether the training stops here."""
        # A worker that was asked to stop has seconds to save; the resumed run begins with the validation.
        if self.controller.is_due(done) and not self.rendezvous.status.group.stop:
            self._validate(done)
        return self.controller.should_stop

    def _validate(self, done: int) -> None:
        self.settle()
        self.recorder.report_held()
        began = time.perf_counter()
        metrics = self._measure()
        is_best = self.controller.note(done, metrics)
        shown = {f"validation_{name}": value for name, value in metrics.items() if name != "rows"}
        self.recorder.note_validation(done, shown, time.perf_counter() - began)
        if is_best and self.saver.keep.best:
            self.heartbeat.mark(Phase.SAVING)
            self.saver.save(done)
        if self.controller.should_stop and self.rendezvous.is_main:
            print(
                f"stopping early after step {done}: {self.controller.without_improvement} validations without"
                f" improvement, best {self.controller.describe()}",
                flush=True,
            )

    def _measure(self) -> dict[str, float]:
        """Return the metrics of all validation rows; the same on every worker."""
        assign_weights(self.model, read_weights(self.network))
        metrics = make_shard_metrics(self.reader.manifest, logits=True)
        blocks = cut_blocks(len(self.reader), self.rows_at_once)
        with self.rendezvous.together():
            for number, counts in share_blocks(len(blocks), self.worker, self.workers):
                self.heartbeat.mark(Phase.VALIDATING, number)
                if counts:  # a forward pass needs no other worker, so none runs only to keep them in step
                    self._add(metrics, blocks[number])
        self.heartbeat.mark(Phase.VALIDATING, len(blocks))
        total = make_shard_metrics(self.reader.manifest, logits=True)
        total.merge(gather_states(self.rendezvous, metrics.state()))
        return total.compute()

    def _add(self, metrics: Any, rows: range) -> None:
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

    def _answer(self, inputs: Any, targets: Any) -> Any:
        scores = self.model(encode_inputs(self.samples, inputs), training=False)
        scores = tf.cast(scores, tf.float32)
        if self.samples.name == LANGUAGE_MODEL:  # the scores of all tokens are many
            return token_losses(scores, targets), tf.argmax(scores, -1, targets.dtype) == targets
        return make_predictions(self.samples, scores) if self.samples.name == REGRESSION else scores


def read_weights(network: Network) -> list[Any]:
    """Return the weights of the network; called on every worker, as moving averages are their means."""
    return [variable.numpy() for variable in (*network.trained, *network.kept)]


def assign_weights(model: Any, values: Sequence[Any]) -> None:
    """Give a model outside the strategy the weights of the network in it."""
    for target, value in zip((*model.trainable_variables, *model.non_trainable_weights), values, strict=True):
        target.assign(value)

"""Validation while a model trains: all ranks measure it on the validation rows, exactly at any world size.

The rows are cut into blocks of a micro-batch, the same at any world size, and replicas share the blocks. Sums
of :mod:`wsmetrics` are exact, so it does not matter which rank added what. Nothing of the training changes:
there are no gradients, evaluation mode leaves running statistics alone, and random numbers are set anew for
each micro-batch of the training.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from wsmetrics.metrics import make_shard_metrics
from wsshards.manifest import LANGUAGE_MODEL, REGRESSION
from wsshards.reader import ShardReader
from wstrain.data.prefetch import prefetch
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.tracking.step_recorder import StepRecorder
from wstrain.validation import ValidationController, cut_blocks, share_blocks
from wstrain_torch.checkpoint.saver import CheckpointSaver
from wstrain_torch.data import Batch, Task
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Validator:
    """Validates when it is due, saves what is the best so far, and says when to stop.

    Args:
        controller: when a validation is due, and what follows from it.
        reader: the validation rows.
        task: how rows become inputs and targets.
        strategy: the model.
        group: the ranks.
        recorder: reports the metrics.
        saver: saves the best checkpoint.
        heartbeat: shows this rank's progress to the others.
        rows_at_once: rows of a block, as many as the training takes at once.
        workers: threads that read ahead.
    """

    controller: ValidationController
    reader: ShardReader
    task: Task
    strategy: Strategy
    group: Group
    recorder: StepRecorder
    saver: CheckpointSaver
    heartbeat: Heartbeat
    rows_at_once: int
    workers: int = 0

    def step(self, done: int) -> bool:
        """Validate if it is due after ``done`` steps; return whether the training stops here."""
        # A rank that was asked to stop has seconds to save; the resumed run then begins with the validation.
        if self.controller.is_due(done) and not self.group.status.group.stop:
            self._validate(done)
        return self.controller.should_stop

    def _validate(self, done: int) -> None:
        self.recorder.report_held()
        began = time.perf_counter()
        metrics = self._measure()
        is_best = self.controller.note(done, metrics)
        shown = {f"validation_{name}": value for name, value in metrics.items() if name != "rows"}
        self.recorder.note_validation(done, shown, time.perf_counter() - began)
        if is_best and self.saver.keep.best:
            self.heartbeat.mark(Phase.SAVING)
            self.saver.save(done)
        if self.controller.should_stop and self.group.is_main:
            print(
                f"stopping early after step {done}: {self.controller.without_improvement} validations without"
                f" improvement, best {self.controller.describe()}",
                flush=True,
            )

    def _measure(self) -> dict[str, float]:
        """Return the metrics of all validation rows; the same on every rank."""
        metrics = make_shard_metrics(self.reader.manifest, logits=True)
        blocks = cut_blocks(len(self.reader), self.rows_at_once)
        shares = list(share_blocks(len(blocks), self.group.replica, self.group.mesh.data))
        with self.strategy.evaluating():
            loaded = prefetch(self._load, [blocks[number] for number, _ in shares], self.workers)
            for (number, counts), (inputs, targets) in zip(shares, loaded, strict=True):
                self.heartbeat.mark(Phase.VALIDATING, number)
                outputs = self.strategy.predict(inputs.to(self.group.device, non_blocking=True))
                if counts and outputs is not None:
                    self._add(metrics, outputs, targets, len(blocks[number]))
        self.heartbeat.mark(Phase.VALIDATING, len(blocks))
        total = make_shard_metrics(self.reader.manifest, logits=True)
        # Ranks that share the layers of a replica have all the same outputs.
        own = metrics.state() if self.group.mesh.tensor_index(self.group.launch.rank) == 0 else None
        total.merge(state for state in self.group.gather(own) if state is not None)
        return total.compute()

    def _load(self, rows: range) -> Batch:
        """Return inputs of a full block, and targets as stored; a short block repeats its rows."""
        indices = rows.start + np.arange(self.rows_at_once, dtype=np.int64) % len(rows)
        features, labels = self.reader.gather(indices)
        inputs, targets = self.task.prepare(features, labels)
        if self.task.name == REGRESSION and labels is not None:
            targets = torch.from_numpy(labels)
        return inputs, targets

    def _add(self, metrics: Any, outputs: Tensor, targets: Tensor, rows: int) -> None:
        outputs, targets = outputs[:rows], targets[:rows]
        if self.task.name == LANGUAGE_MODEL:
            self._add_tokens(metrics, outputs.flatten(0, -2), targets.flatten(), rows)
            return
        if self.task.name == REGRESSION:
            outputs = self.task.predictions(outputs)
        metrics.add(outputs.cpu().numpy(), targets.numpy())

    def _add_tokens(self, metrics: Any, scores: Tensor, tokens: Tensor, rows: int) -> None:
        # The scores of all tokens stay on the device, as there are many of them.
        tokens = tokens.to(scores.device)
        padding = self.task.tokenizer.padding if self.task.tokenizer else None
        losses = functional.cross_entropy(scores, tokens, reduction="none")
        right = scores.argmax(-1) == tokens
        if padding is not None:
            losses, right = losses[tokens != padding], right[tokens != padding]
        metrics.add_losses(losses.cpu().numpy(), right.cpu().numpy(), rows=rows)

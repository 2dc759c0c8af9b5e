"""Validation while a model trains: all ranks measure it on the validation rows, exactly at any world size.

The rows are cut into blocks of a micro-batch, the same at any world size, and replicas share the blocks. Sums
of :mod:`wsmetrics` are exact, so it does not matter which rank added what. Nothing of the training changes:
there are no gradients, evaluation mode leaves running statistics alone, and random numbers are set anew for
each micro-batch of the training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from wsmetrics.metrics import Metrics, make_shard_metrics
from wsshards.terms import LANGUAGE_MODEL, REGRESSION
from wstrain import validator
from wstrain.data.prefetch import prefetch
from wstrain.health.heartbeat import Phase
from wstrain.validation import cut_blocks, share_blocks
from wstrain.validator import MeasuredBlock, OwnMeasures
from wstrain_torch.data import Task
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies import Strategy


class _Block(NamedTuple):
    """Inputs of a full block, targets as the loss takes them, and targets as metrics do."""

    inputs: Tensor
    targets: Tensor
    stored: Tensor


@dataclass(kw_only=True)
class Validator(validator.Validator):
    """Measures a PyTorch model.

    Args:
        samples: the task.
        group: the ranks.
        strategy: the model.
        workers: threads that read ahead.
    """

    samples: Task
    group: Group
    strategy: Strategy
    workers: int = 0

    def _gather(self, value: Any) -> list[Any]:
        return self.group.gather(value)

    def _measure(self, own: OwnMeasures) -> Metrics:
        metrics = make_shard_metrics(self.reader.manifest, logits=True)
        blocks = cut_blocks(len(self.reader), self.rows_at_once)
        shares = list(share_blocks(len(blocks), self.group.replica, self.group.mesh.data))
        # Ranks that share the layers of a replica have all the same outputs.
        speaks = self.group.mesh.tensor_index(self.group.launch.rank) == 0
        with self.strategy.evaluating():
            loaded = prefetch(self._load, [blocks[number] for number, _ in shares], self.workers)
            for (number, counts), block in zip(shares, loaded, strict=True):
                self.heartbeat.mark(Phase.VALIDATING, number)
                outputs = self.strategy.predict(block.inputs.to(self.group.device, non_blocking=True))
                if counts and outputs is not None:
                    self._add(metrics, outputs, block.stored, len(blocks[number]))
                    if speaks:
                        self._add_own(own, number, outputs, block, len(blocks[number]))
        self.heartbeat.mark(Phase.VALIDATING, len(blocks))
        total = make_shard_metrics(self.reader.manifest, logits=True)
        states = self.group.gather(metrics.state() if speaks else None)
        total.merge(state for state in states if state is not None)
        return total

    def _load(self, rows: range) -> _Block:
        """Return a full block; a short one repeats its rows."""
        indices = rows.start + np.arange(self.rows_at_once, dtype=np.int64) % len(rows)
        features, labels = self.reader.gather(indices)
        inputs, targets = self.samples.prepare(features, labels)
        stored = self.samples.name != LANGUAGE_MODEL and labels is not None
        return _Block(inputs, targets, torch.from_numpy(labels) if stored else targets)

    def _add(self, metrics: Any, outputs: Tensor, targets: Tensor, rows: int) -> None:
        outputs, targets = outputs[:rows], targets[:rows]
        if self.samples.name == LANGUAGE_MODEL:
            self._add_tokens(metrics, outputs.flatten(0, -2), targets.flatten(), rows)
            return
        if self.samples.name == REGRESSION:
            outputs = self.samples.predictions(outputs)
        metrics.add(outputs.cpu().numpy(), targets.numpy())

    def _add_own(self, own: OwnMeasures, number: int, outputs: Tensor, block: _Block, rows: int) -> None:
        if not own.wants_loss and not own.wants_outputs:
            return
        outputs, targets = outputs[:rows], block.targets[:rows].to(outputs.device)
        loss = self.samples.loss(outputs, targets).item() if own.wants_loss else None
        wanted = own.wants_outputs
        answers = self.samples.predictions(outputs).cpu().numpy() if wanted else None
        own.add(MeasuredBlock(number, rows, loss, answers, block.stored[:rows].numpy() if wanted else None))

    def _add_tokens(self, metrics: Any, scores: Tensor, tokens: Tensor, rows: int) -> None:
        # The scores of all tokens stay on the device, as there are many of them.
        tokens = tokens.to(scores.device)
        padding = self.samples.tokenizer.padding if self.samples.tokenizer else None
        losses = functional.cross_entropy(scores, tokens, reduction="none")
        right = scores.argmax(-1) == tokens
        if padding is not None:
            losses, right = losses[tokens != padding], right[tokens != padding]
        metrics.add_losses(losses.cpu().numpy(), right.cpu().numpy(), rows=rows)

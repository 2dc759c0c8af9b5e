"""The training loop. It knows neither the strategy nor the task, and there is no other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from wstrain.health.heartbeat import Phase, Pulse
from wstrain.lr_schedule import Schedule
from wstrain_torch.data.loader import Batch
from wstrain_torch.strategies import MicroBatches, Objective, Strategy


class Recorder(Protocol):
    """Who hears of every step."""

    def step(self, step: int, loss: Tensor, learning_rate: float) -> None:
        """Note the local mean loss (0-d, on the device) of optimizer step ``step``."""

    def finish(self) -> dict[str, float]:
        """Report what is still held, and return the last values."""


class Saver(Protocol):
    """Who keeps checkpoints."""

    def step(self, done: int) -> None:
        """Save if a checkpoint is due after ``done`` steps."""


@dataclass(frozen=True, slots=True)
class Run:
    """One pass through the loop.

    Attributes:
        start: optimizer steps already done.
        stop: optimizer steps to have done at the end.
        accumulation: micro-batches a step.
        replica: this rank's replica of the model; with ``accumulation`` it gives each micro-batch its place
            in the global batch.
        seed: of everything random.
    """

    start: int
    stop: int
    accumulation: int
    replica: int
    seed: int


def train(
    run: Run,
    *,
    strategy: Strategy,
    objective: Objective,
    batches: Iterator[Batch],
    schedule: Schedule,
    recorder: Recorder,
    saver: Saver,
    pulse: Pulse,
) -> dict[str, float]:
    """Take the optimizer steps ``run.start … run.stop-1`` and return the last reported values.

    Args:
        run: which steps.
        strategy: the model and how it is spread over ranks.
        objective: the loss.
        batches: ``accumulation`` micro-batches for each step, in order.
        schedule: learning rate of each step.
        recorder: hears of each step.
        saver: keeps checkpoints.
        pulse: is told how far this rank is, for those that wait for it.
    """
    strategy.model.train()
    pulse.begin(run.start, run.accumulation)
    for step in range(run.start, run.stop):
        loss = strategy.gradients(_micro_batches(run, step, batches, pulse), objective)
        learning_rate = schedule.rate(step)
        pulse.mark(Phase.UPDATING)
        strategy.update(learning_rate)
        pulse.mark(Phase.REPORTING)
        recorder.step(step, loss, learning_rate)
        pulse.mark(Phase.SAVING)
        saver.step(step + 1)
        pulse.stepped(step + 1)
    return recorder.finish()


def _micro_batches(run: Run, step: int, batches: Iterator[Batch], pulse: Pulse) -> MicroBatches:
    def seed(micro: int) -> None:
        pulse.mark(Phase.COMPUTING, micro)
        _seed(run, step, micro)

    return MicroBatches(run.accumulation, batches, seed=seed)


def _seed(run: Run, step: int, micro: int) -> None:
    # Dropout and the like depend on the micro-batch's place in training and not on what this rank drew
    # before: a resumed run draws the same numbers, and so does another world size with micro-batches of one
    # size.
    place = run.replica * run.accumulation + micro
    seed = ((run.seed * 1_000_003 + step) * 1_000_003 + place) & 0x7FFFFFFFFFFFFFFF
    random.seed(seed)  # a model of the user's may draw from any of them
    np.random.seed(seed & 0xFFFFFFFF)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)

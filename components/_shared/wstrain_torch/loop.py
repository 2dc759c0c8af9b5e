"""The one training loop, for every strategy and every task."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from wstrain.data.sampler import seed_micro_batch
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.lr_schedule import LearningRateSchedule
from wstrain_torch.data import Batch
from wstrain_torch.strategies import MicroBatches, Objective, Strategy


class Recorder(Protocol):
    """What records every step."""

    def step(self, step: int, loss: Tensor, learning_rate: float) -> None:
        """Note the local mean loss (0-d, on the device) of optimizer step ``step``."""

    def finish(self) -> dict[str, float]:
        """Report what is pending, and return the last values."""


class Validator(Protocol):
    """What validates the model."""

    def step(self, done: int) -> bool:
        """Validate if it is due after ``done`` steps; return whether the training stops here."""


class Saver(Protocol):
    """What saves checkpoints."""

    def step(self, done: int) -> None:
        """Save if a checkpoint is due after ``done`` steps."""


@dataclass(frozen=True, slots=True)
class StepRange:
    """The steps to take, and what seeds their random numbers.

    Attributes:
        start: optimizer steps already finished.
        stop: optimizer steps finished at the end.
        accumulation: micro-batches a step.
        replica: this rank's replica of the model; with ``accumulation`` it gives each micro-batch its place
            in the global batch.
        seed: of everything random.
        own_code: whether the model is the user's, who may draw from other generators than PyTorch's.
    """

    start: int
    stop: int
    accumulation: int
    replica: int
    seed: int
    own_code: bool = True


def train_steps(
    run: StepRange,
    *,
    strategy: Strategy,
    objective: Objective,
    batches: Iterator[Batch],
    schedule: LearningRateSchedule,
    recorder: Recorder,
    validator: Validator,
    saver: Saver,
    heartbeat: Heartbeat,
) -> tuple[int, dict[str, float]]:
    """Take the optimizer steps ``run.start … run.stop-1``, unless the validator stops earlier.

    Args:
        run: which steps.
        strategy: the model, distributed over ranks.
        objective: the loss.
        batches: ``accumulation`` micro-batches for each step, in order.
        schedule: learning rate of each step.
        recorder: records each step.
        validator: validates after some steps, before their checkpoint is saved.
        saver: saves checkpoints.
        heartbeat: shows this rank's progress to the others.

    Returns:
        The finished steps, and the last reported values.
    """
    strategy.model.train()
    heartbeat.note_start(run.start, run.accumulation)
    # A run that was interrupted may have saved this step before it was validated.
    stops, done = validator.step(run.start), run.start
    for step in range(run.start, run.start if stops else run.stop):
        loss = strategy.gradients(_micro_batches(run, step, batches, heartbeat), objective)
        learning_rate = schedule.rate(step)
        heartbeat.mark(Phase.UPDATING)
        strategy.update(learning_rate)
        heartbeat.mark(Phase.REPORTING)
        recorder.step(step, loss, learning_rate)
        done = step + 1
        stops = validator.step(done)
        heartbeat.mark(Phase.SAVING)
        saver.step(done)
        heartbeat.note_step(done)
        if stops:
            break
    return done, recorder.finish()


def _micro_batches(run: StepRange, step: int, batches: Iterator[Batch], heartbeat: Heartbeat) -> MicroBatches:
    def seed(micro: int) -> None:
        heartbeat.mark(Phase.COMPUTING, micro)
        _seed(run, step, micro)

    return MicroBatches(run.accumulation, batches, seed=seed)


def _seed(run: StepRange, step: int, micro: int) -> None:
    seed = seed_micro_batch(run.seed, step, run.replica * run.accumulation + micro)
    if run.own_code:
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)

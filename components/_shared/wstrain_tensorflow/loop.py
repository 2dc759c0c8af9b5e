"""The one training loop of TensorFlow, for every strategy and every task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from wstrain import run_facts
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain_tensorflow.checkpoint import Named
from wstrain_tensorflow.data import BatchLoader, MicroBatch
from wstrain_tensorflow.models.network import Network
from wstrain_tensorflow.training import Job

Record = Callable[[int, Any, float], None]
"""Records a step that has ended: its number from 0, its mean loss (0-d) and its learning rate."""


class Strategy(Protocol):
    """How the optimizer steps of a training are distributed."""

    network: Network
    """The model with the strategy's variables."""

    @property
    def variables(self) -> Named:
        """Everything that a resumed training needs, by kind."""

    def step(
        self, step: int, micro_batches: Iterator[list[MicroBatch]], learning_rate: float, record: Record
    ) -> None:
        """Take or schedule optimizer step ``step``, and record each step that has ended, in order."""

    def settle(self, record: Record) -> None:
        """Wait until the weights have all updates, and record their steps."""


def train_steps(job: Job, strategy: Strategy, loader: BatchLoader, heartbeat: Heartbeat) -> None:
    """Train from the latest checkpoint to the last step or the validator's stop, and export the model.

    Raises:
        UserError: the checkpoints are not of this training, or cannot be written.
    """
    network = strategy.network
    saver = job.saver(strategy.variables)
    start = saver.resume(job.settings.resume_from)
    schedule = run_facts.make_schedule(job.settings, job.steps)
    with job.recorder() as recorder:

        def record(step: int, loss: Any, learning_rate: float) -> None:
            heartbeat.mark(Phase.REPORTING)
            recorder.step(step, loss, learning_rate)

        def settle_losses() -> None:
            strategy.settle(recorder.step)
            recorder.settle()

        saver.settle = settle_losses
        recorder.inspect = job.inspector(network)
        validator = job.validator(network, recorder, saver, heartbeat)
        validator.settle = lambda: strategy.settle(recorder.step)
        micro_batches = loader.stream(start, job.stop)
        heartbeat.note_start(start)
        # A run that was interrupted may have saved this step before it was validated.
        stops, done = validator.step(start), start
        for step in range(start, start if stops else job.stop):
            strategy.step(step, micro_batches, schedule.rate(step), record)
            done = step + 1
            stops = validator.step(done)
            heartbeat.mark(Phase.SAVING)
            saver.step(done)
            heartbeat.note_step(done)
            if stops:
                break
        strategy.settle(recorder.step)
        heartbeat.mark(Phase.EXPORTING)
        final = recorder.finish()
        saver.save(done)
        saver.finish()
        job.export(network, saver, final, done)

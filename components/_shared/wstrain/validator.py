"""Validation while a model trains, for every framework: when, what follows, and the user's own measures.

A framework's validator measures the model on its share of the validation rows.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wsmetrics.metrics import Metrics, best_threshold
from wsshards.reader import ShardReader
from wstrain.checkpoint.saver import CheckpointSaver, Ranks
from wstrain.data.sample_spec import SampleSpec
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.hooks import Hooks
from wstrain.tracking.step_recorder import StepRecorder
from wstrain.validation import ValidationController


class MeasuredBlock(NamedTuple):
    """What the user's hooks need of one block of validation rows.

    Attributes:
        number: of the block, in the order of the rows.
        rows: in it.
        loss: mean of the user's loss over them; None without that hook.
        outputs: what the exported model answers, ``[rows, …]``; None without the hook ``metrics``.
        targets: as stored, ``[rows, …]``; None without the hook ``metrics``.
    """

    number: int
    rows: int
    loss: float | None
    outputs: npt.NDArray[Any] | None
    targets: npt.NDArray[Any] | None


@dataclass
class OwnMeasures:
    """Collects what the user's ``loss`` and ``metrics`` need of a validation split.

    Args:
        hooks: the user's; without them nothing is collected.
        task: name of the task.
    """

    hooks: Hooks | None
    task: str
    blocks: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def wants_loss(self) -> bool:
        """Whether the user has a loss."""
        return self.hooks is not None and self.hooks.loss is not None

    @property
    def wants_outputs(self) -> bool:
        """Whether the user has metrics."""
        return self.hooks is not None and self.hooks.metrics is not None

    def add(self, block: MeasuredBlock) -> None:
        """Take in a block that this rank has measured."""
        if self.wants_loss or self.wants_outputs:
            self.blocks.append(tuple(block))

    def compute(self, ranks: Sequence[Sequence[tuple[Any, ...]]]) -> dict[str, float]:
        """Return the mean of the user's loss as ``loss``, and the user's metrics.

        Args:
            ranks: ``blocks`` of each rank; their order does not matter.

        Raises:
            UserError: a hook fails.
        """
        blocks = sorted(
            (MeasuredBlock(*block) for of_rank in ranks for block in of_rank), key=lambda block: block.number
        )
        values: dict[str, float] = {}
        if self.wants_loss:
            total = math.fsum(block.loss * block.rows for block in blocks if block.loss is not None)
            values["loss"] = total / sum(block.rows for block in blocks)
        if self.hooks is not None and self.wants_outputs:
            outputs, targets = (
                np.concatenate([block[place] for block in blocks if block[place] is not None])
                for place in (3, 4)
            )
            values |= self.hooks.call_metrics(outputs, targets, self.task)
        return values


@dataclass(kw_only=True)
class Validator(ABC):
    """Validates when it is due, saves what is the best so far, and says when to stop.

    A subclass measures the model.

    Args:
        controller: when a validation is due, and what follows from it.
        reader: the validation rows.
        samples: how rows become inputs and targets.
        group: the processes that train in step; each takes its share of the rows.
        recorder: reports the metrics.
        saver: saves the best checkpoint.
        heartbeat: shows this process's progress to the others.
        rows_at_once: rows of a block, as many as the training takes at once.
        hooks: the user's own loss and metrics.
        settle: waits for updates that have been scheduled.
    """

    controller: ValidationController
    reader: ShardReader
    samples: SampleSpec
    group: Ranks
    recorder: StepRecorder
    saver: CheckpointSaver
    heartbeat: Heartbeat
    rows_at_once: int
    hooks: Hooks | None = None
    settle: Callable[[], None] = lambda: None

    def step(self, done: int) -> bool:
        """Validate if it is due after ``done`` steps; return whether the training stops here."""
        # A process that was asked to stop has seconds to save; the resumed run begins with the validation.
        if self.controller.is_due(done) and not self.group.status.group.stop:
            self._validate(done)
        return self.controller.should_stop

    def _validate(self, done: int) -> None:
        self.settle()
        self.recorder.report_held()
        began = time.perf_counter()
        own = OwnMeasures(self.hooks, self.samples.name)
        measured = self._measure(own)
        metrics = measured.compute()
        if own.wants_loss or own.wants_outputs:
            metrics |= self._compute_own(own)
        is_best = self.controller.note(done, metrics, best_threshold(measured))
        shown = {f"validation_{name}": value for name, value in metrics.items() if name != "rows"}
        self.recorder.note_validation(done, shown, time.perf_counter() - began)
        if is_best and self.saver.keep.best:
            self.heartbeat.mark(Phase.SAVING)
            self.saver.save(done)
        if self.controller.should_stop and self.group.is_main:
            count = self.controller.without_improvement
            print(
                f"stopping early after step {done}: {count} validation{'s' * (count != 1)} without"
                f" improvement, best {self.controller.describe()}",
                flush=True,
            )

    def _compute_own(self, own: OwnMeasures) -> dict[str, float]:
        """Compute the user's measures on the main process, so that all decide by the same numbers."""
        ranks = self._gather(own.blocks)
        values: dict[str, float] = {}
        with self.group.together():
            if self.group.is_main:
                values = own.compute(ranks)
        first: dict[str, float] = self._gather(values)[0]
        return first

    @abstractmethod
    def _measure(self, own: OwnMeasures) -> Metrics:
        """Return what measured all validation rows, the same on every process; fill ``own``."""

    @abstractmethod
    def _gather(self, value: Any) -> list[Any]:
        """Return the values of all processes; the first is the main one's."""

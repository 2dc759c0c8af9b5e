"""Writes checkpoints when they are due, beside the training, and resumes from the latest one.

Training waits only until its state is copied to host memory. A thread then writes, hashes, flushes and
renames it. If that fails, every rank raises the error at the same later step.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from wsshards.errors import Interrupted, UserError, print_warning
from wstrain.checkpoint.checkpoint_folder import Checkpoint, Retention, checkpoint_name, copy_checkpoint
from wstrain.checkpoint.latest_checkpoint import (
    ReadShare,
    find_checkpoint_of_step,
    find_checkpoint_to_resume,
)
from wstrain.checkpoint.save_policy import SavePolicy
from wstrain.health.rank_status import RankStatus
from wstrain.validation import ValidationController

NICENESS = 10  # of a core that both want, the training gets about ten times as much


class BackgroundWriter:
    """Runs one piece of work at a time, in a thread of low priority; starting the next waits for the last.

    Args:
        threaded: False runs each piece at once, in the caller's thread.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        self._threaded = threaded
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.seconds = 0.0  # of the last piece

    @property
    def busy(self) -> bool:
        """Whether a piece of work is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Run ``work`` once the last piece has ended; what it raises is kept in ``failure``."""
        self.wait()
        if not self._threaded:
            self._do(work)
            return
        # A daemon, as a process that ends need not wait: an unfinished checkpoint has a temporary name.
        self._thread = threading.Thread(
            target=self._run_at_low_priority, args=(work,), name="checkpoint", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last piece of work has ended."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def take_failure(self) -> None:
        """Raise the kept failure, once."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _run_at_low_priority(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, AttributeError):  # on Linux each thread has its own niceness
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        self._do(work)

    def _do(self, work: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            work()
        except Exception as error:  # the training's thread raises it
            self.failure = error
        self.seconds = time.perf_counter() - began


class Ranks(Protocol):
    """The processes of a training, in any framework."""

    status: RankStatus
    """This rank's status, and the group's."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes metrics, checkpoints and the model."""

    def together(self) -> AbstractContextManager[None]:
        """Run code that may fail on one rank; if it does, all ranks raise the same error."""


@dataclass(kw_only=True)
class CheckpointSaver(ABC):
    """Writes the checkpoints of a training, and resumes from the latest one.

    A subclass copies the state, writes it and loads it.

    Args:
        folder: the ``checkpoints`` output.
        group: the processes.
        identity: what must be the same to resume from a checkpoint.
        save_policy: when a checkpoint is written.
        keep: which checkpoints are kept.
        background: the thread that writes.
        about: further entries of the card.
        settle: exchanges the losses of all steps so far, so that no checkpoint follows a loss that is not
            finite.
        controller: follows the validations; its state is on the card of every checkpoint.
    """

    folder: Path
    group: Ranks
    identity: Mapping[str, Any]
    save_policy: SavePolicy
    keep: Retention
    background: BackgroundWriter
    about: Mapping[str, Any] = field(default_factory=dict)
    settle: Callable[[], None] = lambda: None
    controller: ValidationController | None = None
    count: int = field(default=0, init=False)
    blocked: float = field(default=0.0, init=False)  # total seconds that training waited
    _saved: int = field(default=-1, init=False)

    def step(self, done: int) -> None:
        """Save if a checkpoint is due, or if a rank was asked to stop.

        Raises:
            UserError: a checkpoint could not be written; raised on every rank.
            Interrupted: a rank was asked to stop, and all have saved; raised on every rank.
        """
        if self.group.status.group.failed:
            self.finish()
        self._finish_written()
        if self.save_policy.is_due(done, self.group.status.group.pace):
            self.save(done)
        if self.group.status.group.stop:
            self.save(done)
            self.finish()
            raise Interrupted(f"checkpoint `{checkpoint_name(done)}` has all {done} steps that were taken")
        self._update_status()

    def save(self, done: int) -> None:
        """Save now, unless this step is already saved; it is on the disk when :meth:`finish` returns."""
        if done == self._saved:
            return
        self.settle()
        began = time.perf_counter()
        card = {
            **self.about,
            "loss": self.group.status.take_mean_loss(),
            "identity": dict(self.identity),
        }
        if self.controller is not None:
            card["validation"] = self.controller.state()
        self._save_state(done, card)
        self._saved = done
        self.save_policy.mark_saved(done)
        seconds = time.perf_counter() - began
        self.group.status.cost = seconds if self._writes else 0.0
        self.blocked += seconds
        self.count += 1
        self._update_status()

    def finish(self) -> None:
        """Wait until everything is written; if one rank failed, all raise its error.

        Raises:
            UserError: a checkpoint could not be written.
        """
        self.background.wait()
        self._raise_write_errors()
        self._update_status()

    def resume(self, resume_from: Path | None) -> int:
        """Load the latest complete checkpoint and return its finished steps; 0 if there is none.

        A restarted job finds its own checkpoints in ``folder``; ``resume_from`` has those of another job.

        Raises:
            UserError: ``resume_from`` has no complete checkpoint, or the checkpoint is of another training.
        """
        latest = find_checkpoint_to_resume(self.folder, resume_from, self.identity, self._read_share())
        if latest is None:
            return 0
        self._load_state(latest)
        self._saved = latest.step if latest.path.parent == self.folder else -1
        if self.controller is not None and self.controller.restore(latest.validation):
            self._fetch_best(self.controller, resume_from)
        self.save_policy.mark_saved(latest.step)
        if self.group.is_main:
            print(f"resuming from checkpoint {latest.path.name}: {latest.step} steps done", flush=True)
        return latest.step

    def load_best(self, done: int) -> int:
        """Load the best checkpoint by validation, if it is another one than ``done``; return its step.

        Everything must be written, see :meth:`finish`. Without a validation nothing changes.

        Raises:
            UserError: the best checkpoint is missing or damaged.
        """
        best = self.controller.best_step if self.controller is not None else None
        if best is None or best == done:
            return done
        checkpoint = find_checkpoint_of_step([self.folder], best, self._read_share())
        if checkpoint is None:
            raise UserError(
                f"the best checkpoint `{checkpoint_name(best)}` is missing or damaged: nothing is exported",
                "run again with `export: last` to export the weights of the last step",
            )
        self._load_state(checkpoint)
        return best

    def _fetch_best(self, controller: ValidationController, resume_from: Path | None) -> None:
        """Copy the best checkpoint of another job, which this job's checkpoints now refer to."""
        best, share = controller.best_step, self._read_share()
        if best is None or not self.keep.best:
            return
        if find_checkpoint_of_step([self.folder], best, share) is not None:
            return
        found = find_checkpoint_of_step([resume_from], best, share) if resume_from else None
        if found is None:
            controller.forget_best()
            if self.group.is_main:
                print_warning(
                    f"the best checkpoint so far, `{checkpoint_name(best)}`, is missing or damaged:"
                    " the best is sought anew"
                )
            return
        with self.group.together():
            if self.group.is_main:
                copy_checkpoint(found, self.folder)

    @property
    def _writes(self) -> bool:
        return self.group.is_main

    @abstractmethod
    def _save_state(self, done: int, card: Mapping[str, Any]) -> None:
        """Copy the state, and start to write it; called on every rank."""

    @abstractmethod
    def _load_state(self, checkpoint: Checkpoint) -> None:
        """Continue from the state of a checkpoint; called on every rank."""

    @abstractmethod
    def _read_share(self) -> ReadShare:
        """Return what this rank reads of a checkpoint to see whether it is whole."""

    @abstractmethod
    def _finish_written(self) -> None:
        """Finish a checkpoint whose parts all ranks have written."""

    def _raise_write_errors(self) -> None:
        """Raise on all ranks what the writer of one raised; called by all, when none is writing."""
        with self.group.together():
            self.background.take_failure()

    def _update_status(self) -> None:
        status = self.group.status
        # In this order: once the writer is idle, whether it failed is known.
        status.writing, status.failed = self.background.busy, self.background.failure is not None
        status.written = self.background.seconds if self._writes else 0.0

"""Writes checkpoints when they are due, and resumes from the latest one.

A checkpoint is complete: weights, optimizer, loss scale and the steps done. Two things need not be saved. The
sample position follows from the steps, as the order of samples is computed (:mod:`wstrain.data.sampler`). So
do random numbers: all generators are seeded anew for each micro-batch (:mod:`wstrain_torch.loop`). The card
of a checkpoint has its loss, so the best one is known.

Training waits only until its state is copied to host memory. A thread then writes, hashes, flushes and
renames it. If that fails, every rank raises the error at the same later step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from wsshards.errors import Interrupted
from wstrain.checkpoint import checkpoint_folder, latest_checkpoint
from wstrain.checkpoint.background_writer import BackgroundWriter
from wstrain.checkpoint.checkpoint_folder import Retention
from wstrain.checkpoint.save_policy import SavePolicy
from wstrain_torch.checkpoint import sharded_checkpoint, tensor_state
from wstrain_torch.checkpoint.host_copy import HostCopy
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies import Strategy


@dataclass
class _Open:
    """A checkpoint that the ranks write together, and that has no card yet."""

    temporary: Path
    layout: sharded_checkpoint.Layout
    card: Mapping[str, Any]
    since: int  # exchanges of status before it was begun
    written: sharded_checkpoint.WrittenPart | None = None


@dataclass
class CheckpointSaver:
    """Writes the checkpoints of a training, and resumes from the latest one.

    Args:
        folder: the ``checkpoints`` output.
        group: the ranks.
        strategy: whose state is saved.
        identity: what must be the same to resume from a checkpoint.
        save_policy: when a checkpoint is written.
        keep: which checkpoints are kept.
        background: the thread that writes.
        order: names of the model's trained parameters as optimizers number them, see
            :func:`wstrain_torch.optimizers.parameter_order`.
        about: further entries of the card.
        settle: exchanges the losses of all steps so far, so that no checkpoint follows a loss that is not
            finite.
    """

    folder: Path
    group: Group
    strategy: Strategy
    identity: Mapping[str, Any]
    save_policy: SavePolicy
    keep: Retention
    background: BackgroundWriter
    order: Sequence[str] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    settle: Callable[[], None] = lambda: None
    count: int = field(default=0, init=False)
    blocked: float = field(default=0.0, init=False)  # total seconds that training waited
    _saved: int = field(default=-1, init=False)
    _copy: HostCopy = field(default_factory=HostCopy, init=False)
    _layout: sharded_checkpoint.Layout | None = field(default=None, init=False)
    _open: _Open | None = field(default=None, init=False)

    def step(self, done: int) -> None:
        """Save if a checkpoint is due, or if a rank was asked to stop.

        Raises:
            UserError: a checkpoint could not be written; raised on every rank.
            Interrupted: a rank was asked to stop, and all have saved; raised on every rank.
        """
        heard = self.group.status.heard
        if heard.failed:
            self.finish()
        if self._open is not None and heard.exchanges > self._open.since and not heard.writing:
            self._commit()
        if self.save_policy.is_due(done, heard.pace):
            self.save(done)
        if self.group.status.heard.stop:
            self.save(done)
            self.finish()
            raise Interrupted(
                f"checkpoint `{checkpoint_folder.checkpoint_name(done)}` has all {done} steps that were taken"
            )
        self._update_status()

    def save(self, done: int) -> None:
        """Save now, unless this step is already saved; it is on the disk when :meth:`finish` returns."""
        if done == self._saved:
            return
        self.settle()
        began = time.perf_counter()
        card = {**self.about, "identity": dict(self.identity), "loss": self.group.status.take_mean_loss()}
        if self.strategy.sharded:
            self._save_part(done, card)
        else:
            self._save_whole(done, card)
        self._saved = done
        self.save_policy.mark_saved(done)
        self.group.status.cost = time.perf_counter() - began if self._writes else 0.0
        self.blocked += time.perf_counter() - began
        self.count += 1
        self._update_status()

    def finish(self) -> None:
        """Wait until everything is written; if one rank failed, all raise its error.

        Raises:
            UserError: a checkpoint could not be written.
        """
        self._settle_parts()
        self.background.wait()
        self._raise_write_errors()
        self._update_status()

    def resume(self, resume_from: Path | None) -> int:
        """Load the latest complete checkpoint and return its finished steps; 0 if there is none.

        A restarted job finds its own checkpoints in ``folder``; ``resume_from`` has those of another job.

        Raises:
            UserError: ``resume_from`` has no complete checkpoint, or the checkpoint is of another training.
        """
        group, launch = self.group, self.group.launch
        share = latest_checkpoint.ReadShare(launch.rank, launch.world_size, group.local_rank, group.everyone)
        newest = latest_checkpoint.find_checkpoint_to_resume(self.folder, resume_from, self.identity, share)
        if newest is None:
            return 0
        with group.together():
            state = self._state(newest)
        with group.together():
            self.strategy.load(state)
        self._saved = newest.step if newest.path.parent == self.folder else -1
        self.save_policy.mark_saved(newest.step)
        if launch.is_main:
            print(f"resuming from checkpoint {newest.path.name}: {newest.step} steps done", flush=True)
        return newest.step

    @property
    def _writes(self) -> bool:
        return self.strategy.sharded or self.group.launch.is_main

    def _update_status(self) -> None:
        status = self.group.status
        # In this order: once the writer is idle, whether it failed is known.
        status.writing, status.failed = self.background.busy, self.background.failure is not None
        status.written = self.background.seconds if self._writes else 0.0

    def _save_whole(self, done: int, card: Mapping[str, Any]) -> None:
        state = self.strategy.state()  # may be gathered from all ranks
        if not self.group.launch.is_main:
            return
        self.background.wait()
        if self.background.failure is not None:
            return  # all ranks learn of it at the next exchange
        whole = self._copy.take({"step": done, **state})
        about = {name: value for name, value in card.items() if name != "identity"}

        def write() -> None:
            checkpoint_folder.save_checkpoint(
                self.folder, done, whole, self.identity, keep=self.keep, about=about
            )

        self.background.start(write)

    def _save_part(self, done: int, card: Mapping[str, Any]) -> None:
        self._settle_parts()
        state: Mapping[str, Any] = self.strategy.state()
        layout = self._current_layout(state)
        temporary: Path | None = None
        with self.group.together():
            if self.group.launch.is_main:
                self.background.wait()
                self.background.take_failure()
                temporary = checkpoint_folder.begin_checkpoint(self.folder, done)
        temporary = self.group.from_main(temporary)
        assert temporary is not None
        copied = self._copy.take(sharded_checkpoint.select_own_slices(layout, state))
        opened = _Open(temporary, layout, card, self.group.status.heard.exchanges)
        self._open = opened
        self.background.start(partial(_write_part, opened, copied))

    def _current_layout(self, state: Mapping[str, Any]) -> sharded_checkpoint.Layout:
        """Return the layout of the last save, or a new one if tensors were added or removed since."""
        last = self._layout
        new = last is None or last.shapes != sharded_checkpoint.tensor_shapes(state)
        if last is None or any(self.group.everyone(new)):
            last = sharded_checkpoint.plan_layout(state, self.group.launch.rank, self.group.everyone)
        self._layout = last
        return last

    def _settle_parts(self) -> None:
        if self._open is not None:
            self.background.wait()
            self._raise_write_errors()
            self._commit()

    def _commit(self) -> None:
        """Let rank 0 finish the checkpoint, whose parts are all written; called by all."""
        opened, self._open = self._open, None
        assert opened is not None
        self.background.wait()
        assert opened.written is not None
        written = self.group.everyone(opened.written)
        if self.group.launch.is_main:
            self.background.start(partial(_finish_parts, opened, written, keep=self.keep))

    def _raise_write_errors(self) -> None:
        """Raise on all ranks what the writer of one raised; called by all, when none is writing."""
        try:
            with self.group.together():
                self.background.take_failure()
        except Exception:
            if self._open is not None and self.group.launch.is_main:
                checkpoint_folder.discard_checkpoint(self._open.temporary)
            self._open = None
            raise

    def _state(self, newest: checkpoint_folder.Checkpoint) -> Any:
        """Read a checkpoint in the form that this strategy loads, whichever strategy wrote it."""
        if newest.is_sharded:
            stored = sharded_checkpoint.ShardedCheckpoint(newest.path)
            return (
                stored
                if self.strategy.sharded
                else tensor_state.to_state_dicts(stored, self.strategy.state(), self.order)
            )
        state = checkpoint_folder.load_state(newest)
        return tensor_state.from_state_dicts(state, self.order) if self.strategy.sharded else state


def _write_part(opened: _Open, slices: Mapping[int, Any]) -> None:
    with checkpoint_folder.report_write_errors(opened.temporary, shared=True):
        opened.written = sharded_checkpoint.write_part(opened.temporary, opened.layout, slices)


def _finish_parts(
    opened: _Open, written: Sequence[sharded_checkpoint.WrittenPart], *, keep: Retention
) -> None:
    with checkpoint_folder.report_write_errors(opened.temporary):
        files = sharded_checkpoint.write_metadata(opened.temporary, opened.layout, written)
    checkpoint_folder.finish_checkpoint(opened.temporary, files, opened.card, keep=keep)

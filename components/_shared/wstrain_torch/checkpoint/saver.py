"""Saves and loads the state of a PyTorch training: whole by rank 0, or a part by each rank.

A checkpoint is complete: weights, optimizer, loss scale and the steps done. Two things need not be saved. The
sample position follows from the steps, as the order of samples is computed (:mod:`wstrain.data.sampler`). So
do random numbers: all generators are seeded anew for each micro-batch (:mod:`wstrain_torch.loop`). The card
of a checkpoint has its loss, so the best one is known.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wstrain.checkpoint import checkpoint_folder, saver
from wstrain.checkpoint.checkpoint_folder import Checkpoint, Retention
from wstrain.checkpoint.latest_checkpoint import ReadShare
from wstrain_torch.checkpoint import sharded_checkpoint, tensor_state
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies import Strategy

_TensorKey = tuple[int, torch.dtype, torch.Size, tuple[int, ...]]


class HostCopy:
    """Copies a training's state to buffers in host memory.

    The buffers are reused at every save, as allocating memory costs more than copying into it, and take as
    much host memory as the state. Those for a GPU's tensors are pinned, so that all copies run at the same
    time.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[Any, ...], Tensor] = {}
        self._copied: dict[_TensorKey, Tensor] = {}
        self._asynchronous = False

    def take(self, state: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return ``state`` with every tensor copied; valid until the next call."""
        self._copied, self._asynchronous = {}, False
        copies = {key: self._copy((key,), value) for key, value in state.items()}
        if self._asynchronous:
            torch.cuda.synchronize()
        self._copied = {}
        return copies

    def _copy(self, path: tuple[Any, ...], value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._copy_tensor(path, value.detach())
        if isinstance(value, Mapping):
            return {key: self._copy((*path, key), item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._copy((*path, number), item) for number, item in enumerate(value))
        return copy.deepcopy(value)

    def _copy_tensor(self, path: tuple[Any, ...], value: Tensor) -> Tensor:
        # Weights that two layers share stay one tensor in the copy.
        key = (value.data_ptr(), value.dtype, value.shape, value.stride())
        if value.numel() and key in self._copied:
            return self._copied[key]
        buffer = self._buffers.get(path)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
            self._buffers[path] = buffer
        buffer.copy_(value, non_blocking=value.is_cuda)
        self._asynchronous |= value.is_cuda
        self._copied[key] = buffer
        return buffer


@dataclass
class _OpenCheckpoint:
    """A checkpoint that the ranks write together, and that has no card yet."""

    temporary: Path
    layout: sharded_checkpoint.Layout
    card: Mapping[str, Any]
    begun_at: int  # exchanges of status before it was begun
    written: sharded_checkpoint.WrittenPart | None = None


@dataclass(kw_only=True)
class CheckpointSaver(saver.CheckpointSaver):
    """The saver of a PyTorch training.

    Args:
        group: the ranks.
        strategy: whose state is saved.
        order: names of the model's trained parameters as optimizers number them, see
            :func:`wstrain_torch.optimizers.parameter_order`.
    """

    group: Group
    strategy: Strategy
    order: Sequence[str] = ()
    _copy: HostCopy = field(default_factory=HostCopy, init=False)
    _layout: sharded_checkpoint.Layout | None = field(default=None, init=False)
    _open: _OpenCheckpoint | None = field(default=None, init=False)

    def finish(self) -> None:
        """Wait until everything is written; if one rank failed, all raise its error.

        Raises:
            UserError: a checkpoint could not be written.
        """
        self._settle_parts()
        super().finish()

    @property
    def _writes(self) -> bool:
        return self.strategy.sharded or self.group.is_main

    def _read_share(self) -> ReadShare:
        group, launch = self.group, self.group.launch
        return ReadShare(launch.rank, launch.world_size, group.local_rank, group.gather)

    def _save_state(self, done: int, card: Mapping[str, Any]) -> None:
        if self.strategy.sharded:
            self._save_part(done, card)
        else:
            self._save_whole(done, card)

    def _save_whole(self, done: int, card: Mapping[str, Any]) -> None:
        state = self.strategy.state()  # may be gathered from all ranks
        if not self.group.is_main:
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
            if self.group.is_main:
                self.background.wait()
                self.background.take_failure()
                temporary = checkpoint_folder.begin_checkpoint(self.folder, done)
        temporary = self.group.broadcast(temporary)
        assert temporary is not None
        copied = self._copy.take(sharded_checkpoint.select_own_slices(layout, state))
        opened = _OpenCheckpoint(temporary, layout, card, self.group.status.group.exchanges)
        self._open = opened
        self.background.start(partial(_write_part, opened, copied))

    def _current_layout(self, state: Mapping[str, Any]) -> sharded_checkpoint.Layout:
        """Return the layout of the last save, or a new one if tensors were added or removed since."""
        last = self._layout
        new = last is None or last.shapes != sharded_checkpoint.tensor_shapes(state)
        if last is None or any(self.group.gather(new)):
            last = sharded_checkpoint.plan_layout(state, self.group.launch.rank, self.group.gather)
        self._layout = last
        return last

    def _finish_written(self) -> None:
        status = self.group.status.group
        if self._open is not None and status.exchanges > self._open.begun_at and not status.writing:
            self._commit()

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
        written = self.group.gather(opened.written)
        if self.group.is_main:
            self.background.start(partial(_finish_parts, opened, written, keep=self.keep))

    def _raise_write_errors(self) -> None:
        try:
            super()._raise_write_errors()
        except Exception:
            if self._open is not None and self.group.is_main:
                checkpoint_folder.discard_checkpoint(self._open.temporary)
            self._open = None
            raise

    def _load_state(self, checkpoint: Checkpoint) -> None:
        with self.group.together():
            state = self._read_state(checkpoint)
        with self.group.together():
            self.strategy.load(state)

    def _read_state(self, checkpoint: Checkpoint) -> Any:
        """Read a checkpoint in the form that this strategy loads, whichever strategy wrote it."""
        if checkpoint.is_sharded:
            stored = sharded_checkpoint.ShardedCheckpoint(checkpoint.path)
            if self.strategy.sharded:
                return stored
            return tensor_state.to_state_dicts(stored, self.strategy.state(), self.order)
        state = checkpoint_folder.load_state(checkpoint)
        return tensor_state.from_state_dicts(state, self.order) if self.strategy.sharded else state


def _write_part(opened: _OpenCheckpoint, slices: Mapping[int, Any]) -> None:
    with checkpoint_folder.report_write_errors(opened.temporary, shared=True):
        opened.written = sharded_checkpoint.write_part(opened.temporary, opened.layout, slices)


def _finish_parts(
    opened: _OpenCheckpoint, written: Sequence[sharded_checkpoint.WrittenPart], *, keep: Retention
) -> None:
    with checkpoint_folder.report_write_errors(opened.temporary):
        files = sharded_checkpoint.write_metadata(opened.temporary, opened.layout, written)
    checkpoint_folder.finish_checkpoint(opened.temporary, files, opened.card, keep=keep)

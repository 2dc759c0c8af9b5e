"""Checkpoints of TensorFlow variables: one file of NumPy arrays, in the folders of ``wstrain.checkpoint``.

Every worker reads its variables, as the mean of a moving average is an exchange among all; the leader
writes the one file, from copies in its memory, beside the training. Nothing else is saved by a worker:
TensorFlow asks for a save of every worker's own only where the save itself reads such variables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, cast
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
from numpy.lib.format import write_array

from wsshards.errors import Interrupted, UserError
from wstrain.checkpoint import checkpoint_folder, latest_checkpoint
from wstrain.checkpoint.background_writer import BackgroundWriter
from wstrain.checkpoint.checkpoint_folder import Retention
from wstrain.checkpoint.hashed_file import HashedFile, flush_to_disk
from wstrain.checkpoint.save_policy import SavePolicy
from wstrain_tensorflow.launch.rendezvous import Rendezvous

STATE = "state.npz"
Named = Mapping[str, Sequence[Any]]


@dataclass
class CheckpointSaver:
    """Writes the checkpoints of a training, and resumes from the latest one.

    Args:
        folder: the ``checkpoints`` output.
        rendezvous: connects the processes that hold the variables.
        is_main: whether this process writes.
        variables: everything that a resumed training needs, by kind.
        identity: what must be the same to resume from a checkpoint.
        save_policy: when a checkpoint is written.
        keep: which checkpoints are kept.
        background: the thread that writes.
        settle: waits until all updates so far are applied and their losses exchanged.
    """

    folder: Path
    rendezvous: Rendezvous
    is_main: bool
    variables: Named
    identity: Mapping[str, Any]
    save_policy: SavePolicy
    keep: Retention
    background: BackgroundWriter
    settle: Callable[[], None] = lambda: None
    _saved: int = field(default=-1, init=False)

    def wanted(self, done: int) -> bool:
        """Whether :meth:`step` has anything to do after ``done`` steps."""
        heard = self.rendezvous.status.heard
        return heard.stop or heard.failed or self.save_policy.is_due(done, heard.pace)

    def step(self, done: int) -> None:
        """Save if a checkpoint is due, or if a worker was asked to stop.

        Raises:
            UserError: a checkpoint could not be written; raised on every worker.
            Interrupted: a worker was asked to stop, and the leader has saved; raised on every worker.
        """
        heard = self.rendezvous.status.heard
        if heard.failed:
            self.finish()
        if self.save_policy.is_due(done, heard.pace):
            self.save(done)
        if self.rendezvous.status.heard.stop:
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
        about = {"loss": self.rendezvous.status.take_mean_loss()}
        arrays = {name: each.numpy() for name, each in _flat(self.variables).items()}
        if self.is_main:
            self.background.wait()
            if self.background.failure is None:  # else all learn of it at the next exchange
                write = partial(_write, self.folder, done, arrays, self.identity, keep=self.keep, about=about)
                self.background.start(write)
        self._saved = done
        self.save_policy.mark_saved(done)
        self.rendezvous.status.cost = time.perf_counter() - began if self.is_main else 0.0
        self._update_status()

    def finish(self) -> None:
        """Wait until everything is written; if the leader failed, all workers raise its error.

        Raises:
            UserError: a checkpoint could not be written.
        """
        self.background.wait()
        with self.rendezvous.together():
            self.background.take_failure()
        self._update_status()

    def resume(self, resume_from: Path | None) -> int:
        """Load the latest complete checkpoint and return its finished steps; 0 if there is none.

        Raises:
            UserError: ``resume_from`` has no complete checkpoint, or the checkpoint is of another training.
        """
        share = latest_checkpoint.ReadShare(0 if self.is_main else 1, everyone=self.rendezvous.gather)
        newest = latest_checkpoint.find_checkpoint_to_resume(self.folder, resume_from, self.identity, share)
        if newest is None:
            return 0
        with self.rendezvous.together():
            _load(newest.path, _flat(self.variables))
        self._saved = newest.step if newest.path.parent == self.folder else -1
        self.save_policy.mark_saved(newest.step)
        if self.is_main:
            print(f"resuming from checkpoint {newest.path.name}: {newest.step} steps done", flush=True)
        return newest.step

    def _update_status(self) -> None:
        status = self.rendezvous.status
        # In this order: once the writer is idle, whether it failed is known.
        status.writing, status.failed = self.background.busy, self.background.failure is not None
        status.written = self.background.seconds if self.is_main else 0.0


def _flat(variables: Named) -> dict[str, Any]:
    return {f"{kind}/{number}": each for kind, held in variables.items() for number, each in enumerate(held)}


def _write(
    folder: Path,
    done: int,
    arrays: Mapping[str, npt.NDArray[Any]],
    identity: Mapping[str, Any],
    *,
    keep: Retention,
    about: Mapping[str, Any],
) -> None:
    temporary = checkpoint_folder.begin_checkpoint(folder, done)
    with checkpoint_folder.report_write_errors(temporary), (temporary / STATE).open("wb") as file:
        digesting = HashedFile(file)
        _write_arrays(cast("IO[bytes]", digesting), arrays)
        flush_to_disk(file)
    card = {**about, "identity": dict(identity)}
    checkpoint_folder.finish_checkpoint(temporary, {STATE: digesting.size_and_hash()}, card, keep=keep)


def _write_arrays(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    # numpy.savez needs a file that it can also read from.
    with ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                write_array(entry, np.asanyarray(array), allow_pickle=False)


def _load(path: Path, variables: Mapping[str, Any]) -> None:
    try:
        with np.load(path / STATE, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, BadZipFile) as error:
        first = str(error).splitlines()[0][:120]
        raise UserError(f"cannot read checkpoint `{path.name}`: {first}") from error
    for name in sorted(variables.keys() | arrays.keys()):
        had = list(arrays[name].shape) if name in arrays else "nothing"
        wanted = list(variables[name].shape) if name in variables else "nothing"
        if had != wanted:
            raise UserError(
                f"checkpoint `{path.name}` has {had} where the model has {wanted}, for `{name}`",
                "resume with the same model, or start with an empty `checkpoints` folder",
            )
    for name, variable in variables.items():
        variable.assign(arrays[name])

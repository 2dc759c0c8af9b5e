"""Checkpoints of variables: one file of NumPy arrays, in the folders and with the cards of every strategy.

Every worker reads its variables, as the mean of a moving average is an exchange among all; the leader
writes the one file. Nothing else is saved by a worker: TensorFlow asks for a save of every worker's own
only where the save itself reads such variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from wstrain import checkpoint
from wstrain.digesting import flush
from wstrain.errors import UserError
from wstrain.manifest import sha256_of
from wstrain.meeting import Meeting

STATE = "state.npz"
Named = Mapping[str, Sequence[Any]]


@dataclass
class CheckpointSaver:
    """Writes checkpoints as they fall due and finds the one to resume from.

    Args:
        folder: the ``checkpoints`` output.
        meeting: the processes that hold the variables.
        is_main: whether this one writes.
        variables: by what they are; all that a training goes on from.
        identity: what must be the same to go on from a checkpoint.
        intervals: a checkpoint is due when the steps done are a multiple of one of these.
        keep: checkpoints to keep.
        settle: waits until all updates so far are made.
    """

    folder: Path
    meeting: Meeting
    is_main: bool
    variables: Named
    identity: Mapping[str, Any]
    intervals: Sequence[int]
    keep: int
    settle: Callable[[], None] = lambda: None
    _saved: int = field(default=-1, init=False)

    def due(self, done: int) -> bool:
        """Whether a checkpoint is due after so many steps."""
        return any(done % interval == 0 for interval in self.intervals)

    def step(self, done: int) -> None:
        """Save if due."""
        if self.due(done):
            self.save(done)

    def save(self, done: int) -> None:
        """Save now, unless this very step is saved already; if the leader cannot, every worker stops.

        Raises:
            UserError: the checkpoint cannot be written.
        """
        if done == self._saved:
            return
        self.settle()
        arrays = {name: each.numpy() for name, each in _flat(self.variables).items()}
        with self.meeting.together():
            if self.is_main:
                _write(self.folder, done, arrays, self.identity, keep=self.keep)
        self._saved = done

    def resume(self, resume_from: Path | None) -> int:
        """Load the newest whole checkpoint and return the steps it has done; 0 if there is none.

        Raises:
            UserError: ``resume_from`` has no whole checkpoint, or the checkpoint is of another training.
        """
        found: checkpoint.Found | None = None
        with self.meeting.together():
            if self.is_main:
                found = self._find(resume_from)
        path, step = self.meeting.gather([str(found.path), found.step] if found else ["", 0])[0]
        if not path:
            return 0
        with self.meeting.together():
            _load(Path(path), _flat(self.variables))
        self._saved = step if Path(path).parent == self.folder else -1
        if self.is_main:
            print(f"resuming from checkpoint {Path(path).name}: {step} steps done", flush=True)
        return int(step)

    def _find(self, resume_from: Path | None) -> checkpoint.Found | None:
        found = checkpoint.newest([self.folder, resume_from] if resume_from else [self.folder])
        if found is not None:
            checkpoint.expect_identity(found, self.identity)
        elif resume_from:
            raise UserError(
                f"`resume_from` has no whole checkpoint in `{resume_from}`",
                "bind the `checkpoints` output of a training step, or leave it out",
            )
        return found


def _flat(variables: Named) -> dict[str, Any]:
    return {f"{kind}/{number}": each for kind, held in variables.items() for number, each in enumerate(held)}


def _write(
    folder: Path,
    done: int,
    arrays: Mapping[str, npt.NDArray[Any]],
    identity: Mapping[str, Any],
    *,
    keep: int,
) -> None:
    temporary = checkpoint.begin(folder, done)
    path = temporary / STATE
    with checkpoint.writing(temporary):
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            flush(file)
        files = {STATE: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}}
    checkpoint.finish(temporary, files, {"identity": dict(identity)}, keep=keep)


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

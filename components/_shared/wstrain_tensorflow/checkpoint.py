"""Checkpoints of TensorFlow variables: one file of NumPy arrays, in the folders of ``wstrain.checkpoint``.

Every worker reads its variables, as the mean of a moving average is an exchange among all. The leader writes
the file, from copies in its memory, beside the training. The other workers save nothing: TensorFlow needs a
save of every worker only if the save itself reads such variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, cast
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
from numpy.lib.format import write_array

from wsshards.errors import UserError, describe_error
from wstrain.checkpoint import checkpoint_folder, saver
from wstrain.checkpoint.checkpoint_folder import Checkpoint, HashedFile, Retention, flush_to_disk
from wstrain.checkpoint.latest_checkpoint import ReadShare
from wstrain_tensorflow.launch.rendezvous import Rendezvous

STATE, NAMES = "state.npz", "names"  # NAMES: entry of the card with the names of the weights
Named = Mapping[str, Sequence[Any]]


@dataclass(kw_only=True)
class CheckpointSaver(saver.CheckpointSaver):
    """The saver of a TensorFlow training.

    Args:
        group: connects the processes that hold the variables.
        variables: everything that a resumed training needs, by kind.
    """

    group: Rendezvous
    variables: Named

    def _read_share(self) -> ReadShare:
        # Every worker loads all of the file, so every worker checks all of it.
        return ReadShare(0 if self.group.is_main else 1, gather=self.group.gather)

    def _finish_written(self) -> None:
        """Do nothing: one worker writes all of a checkpoint."""

    def _save_state(self, done: int, card: Mapping[str, Any]) -> None:
        arrays = {name: variable.numpy() for name, variable in _flat(self.variables).items()}
        if self.group.is_main:
            self.background.wait()
            if self.background.failure is None:  # else all learn of it at the next exchange
                self.background.start(partial(_write, self.folder, done, arrays, card, keep=self.keep))

    def _load_state(self, checkpoint: Checkpoint) -> None:
        with self.group.together():
            _load(checkpoint.path, _flat(self.variables))


def _flat(variables: Named) -> dict[str, Any]:
    return {
        f"{kind}/{number}": variable
        for kind, of_kind in variables.items()
        for number, variable in enumerate(of_kind)
    }


def _write(
    folder: Path,
    done: int,
    arrays: Mapping[str, npt.NDArray[Any]],
    card: Mapping[str, Any],
    *,
    keep: Retention,
) -> None:
    temporary = checkpoint_folder.begin_checkpoint(folder, done)
    with checkpoint_folder.report_write_errors(temporary), (temporary / STATE).open("wb") as file:
        hashed = HashedFile(file)
        _write_arrays(cast("IO[bytes]", hashed), arrays)
        flush_to_disk(file)
    checkpoint_folder.finish_checkpoint(temporary, {STATE: hashed.size_and_hash()}, card, keep=keep)


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
        raise UserError(f"cannot read checkpoint `{path.name}`: {describe_error(error)}") from error
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

"""Checkpoints on disk: written atomically, checked when they are read.

A checkpoint is a folder ``step-00000060`` with a card, ``checkpoint.json``, that has the size and SHA-256 of
every other file in it, and of itself: ``state.pt`` where all ranks have the same state, else a part from each
rank (:mod:`wstrain_torch.checkpoint.sharded_checkpoint`). It is written under a temporary name, the card
last, flushed to the disk and then renamed. Reading starts with :mod:`wstrain.checkpoint.latest_checkpoint`.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from wsshards.errors import UserError, describe_error
from wsshards.manifest import add_checksum, has_valid_checksum

STATE, CARD = "state.pt", "checkpoint.json"
Files = Mapping[str, Mapping[str, Any]]  # size and hash by name
_NAME = re.compile(r"step-(\d{8,})")
_FILE = re.compile(r"\w[\w.-]*|\.metadata")
_TEMPORARY = ".writing-"


@dataclass(frozen=True, slots=True)
class Retention:
    """Which checkpoints are kept.

    Attributes:
        newest: number of the newest ones, at least 1.
        best: also keep the one that the card of a kept one names as the best so far.
    """

    newest: int
    best: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint, as its card describes it.

    Attributes:
        path: its folder.
        step: finished optimizer steps.
        identity: what the training was, see :func:`expect_identity`.
        files: size and SHA-256 of each of its files, by name.
        validation: state of :class:`wstrain.validation.ValidationController`; empty without validation.
    """

    path: Path
    step: int
    identity: Mapping[str, Any]
    files: Files = field(default_factory=dict)
    validation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_sharded(self) -> bool:
        """Whether each rank wrote its own part."""
        return ".metadata" in self.files


def save_checkpoint(
    folder: Path,
    step: int,
    state: Mapping[str, Any],
    identity: Mapping[str, Any],
    *,
    keep: Retention,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a checkpoint with one file of state, then remove those that need not be kept.

    Args:
        folder: the folder of all checkpoints.
        step: finished optimizer steps.
        state: tensors, numbers, texts and containers of them.
        identity: what must be the same to resume from here.
        keep: which checkpoints are kept.
        about: further entries of the card.

    Raises:
        UserError: the folder cannot be written or the disk is full; older checkpoints are untouched.
    """
    temporary = begin_checkpoint(folder, step)
    with report_write_errors(temporary):
        files = {STATE: _write_state(temporary / STATE, state)}
    return finish_checkpoint(temporary, files, {**(about or {}), "identity": dict(identity)}, keep=keep)


def checkpoint_name(step: int) -> str:
    """Return the name of the checkpoint after ``step`` steps."""
    return f"step-{step:08d}"


def begin_checkpoint(folder: Path, step: int) -> Path:
    """Make the folder of a checkpoint, under a temporary name."""
    temporary = folder / f"{_TEMPORARY}{checkpoint_name(step)}"
    with report_write_errors(temporary):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    return temporary


def finish_checkpoint(temporary: Path, files: Files, card: Mapping[str, Any], *, keep: Retention) -> Path:
    """Write the card, give the checkpoint its final name, and remove those that need not be kept.

    Args:
        temporary: from :func:`begin_checkpoint`.
        files: size and hash of every file in it, by name.
        card: further entries of the card.
        keep: which checkpoints are kept.

    Raises:
        UserError: a file is missing, or the card cannot be written.
    """
    folder, name = temporary.parent, temporary.name.removeprefix(_TEMPORARY)
    final = folder / name
    with report_write_errors(temporary):
        for file in files:
            _expect_written(temporary, file)
        with (temporary / CARD).open("w", encoding="utf-8") as stream:
            content = {"step": _step(final), **card, "files": files}
            json.dump(add_checksum(content), stream, indent=2)
            flush_to_disk(stream)
        _flush_folder(temporary)
        shutil.rmtree(final, ignore_errors=True)  # a damaged checkpoint of the same step
        temporary.rename(final)
        _flush_folder(folder)
        _prune(folder, keep)
    return final


def copy_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Copy a complete checkpoint into another folder of checkpoints, the card last.

    Raises:
        UserError: the folder cannot be written or the disk is full.
    """
    temporary = begin_checkpoint(folder, checkpoint.step)
    with report_write_errors(temporary):
        for name in (*checkpoint.files, CARD):
            with (checkpoint.path / name).open("rb") as source, (temporary / name).open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                flush_to_disk(target)
        _flush_folder(temporary)
        final = folder / checkpoint_name(checkpoint.step)
        shutil.rmtree(final, ignore_errors=True)  # a damaged one
        temporary.rename(final)
        _flush_folder(folder)


def discard_checkpoint(temporary: Path) -> None:
    """Remove a checkpoint that was not finished."""
    shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def report_write_errors(temporary: Path, *, shared: bool = False) -> Iterator[None]:
    """Turn an ``OSError`` into a sentence, and remove the unfinished checkpoint.

    Args:
        temporary: from :func:`begin_checkpoint`.
        shared: other ranks write into the folder too, so it is not removed here.
    """
    try:
        yield
    except OSError as error:
        if not shared:
            discard_checkpoint(temporary)
        raise UserError(
            f"cannot write checkpoint `{temporary.name.removeprefix(_TEMPORARY)}`: {describe_error(error)}",
            "free space for it and resume; older checkpoints are whole",
        ) from error


def list_checkpoints(folder: Path) -> list[Path]:
    """List the checkpoints in a folder, the newest first, complete or not."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=_step, reverse=True)


def read_card(path: Path) -> Checkpoint:
    """Read the card of a checkpoint, but none of its files.

    Raises:
        OSError: there is no card, or it cannot be read.
        ValueError: the card was changed or damaged.
    """
    try:
        card = json.loads((path / CARD).read_text(encoding="utf-8"))
        whole = has_valid_checksum(card)
        validation = dict(card.get("validation") or {})
        checkpoint = Checkpoint(
            path, int(card["step"]), dict(card["identity"]), dict(card["files"]), validation
        )
        files = {
            name: (int(entry["bytes"]), str(entry["sha256"])) for name, entry in checkpoint.files.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"`{CARD}` is not what was written") from error
    if not whole or checkpoint.step != _step(path):
        raise ValueError(f"`{CARD}` is not what was written")
    for name in files:
        if not _FILE.fullmatch(name):
            raise ValueError(f"`{CARD}` names a file `{name}`")
    if not files:
        raise ValueError(f"`{CARD}` names no files")
    return checkpoint


def load_state(checkpoint: Checkpoint) -> dict[str, Any]:
    """Read the state of a checkpoint into host memory, without executing anything in it.

    Raises:
        UserError: the file cannot be read.
    """
    import torch  # all else here serves frameworks that have no torch

    try:
        state: dict[str, Any] = torch.load(checkpoint.path / STATE, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise UserError(
            f"cannot read checkpoint `{checkpoint.path.name}`: {describe_error(error)}"
        ) from error
    return state


def expect_identity(checkpoint: Checkpoint, identity: Mapping[str, Any]) -> None:
    """Check that a checkpoint belongs to this training.

    Raises:
        UserError: an entry of ``identity`` differs; the message has both values.
    """
    for name, wanted in identity.items():
        had = checkpoint.identity.get(name)
        if had != wanted:
            raise UserError(
                f"checkpoint `{checkpoint.path.name}` was trained with `{name}` {had},"
                f" but this run has {wanted}",
                "resume with the same value, or start with an empty `checkpoints` folder",
            )


def _write_state(path: Path, state: Mapping[str, Any]) -> Mapping[str, Any]:
    import torch

    with path.open("wb") as file:
        hashed = HashedFile(file)
        try:
            with skip_crc32():
                torch.save(dict(state), cast("IO[bytes]", hashed))  # torch only calls write()
        except (RuntimeError, OSError) as error:
            raise hashed.failure or OSError(describe_error(error)) from error
        flush_to_disk(file)
    return hashed.size_and_hash()


def _expect_written(temporary: Path, file: str) -> None:
    # Every rank wrote its part to the folder as its own instance sees it, which may be a different one.
    if not (temporary / file).is_file():
        discard_checkpoint(temporary)
        name = temporary.name.removeprefix(_TEMPORARY)
        raise UserError(
            f"part `{file}` of checkpoint `{name}` was written by its rank, but rank 0 does not see it",
            "bind `checkpoints` to a folder that all instances share",
        )


def _prune(folder: Path, keep: Retention) -> None:
    paths = list_checkpoints(folder)
    stay = set(paths[: keep.newest])
    if keep.best:
        # Whichever of those is resumed from, the best one that it knows of is there.
        stay |= {folder / name for path in paths[: keep.newest] if (name := _best_name(path))}
    for path in paths:
        if path not in stay:  # renamed first, so that a half-removed one is not taken for a checkpoint
            discard_checkpoint(path.rename(folder / f"{_TEMPORARY}{path.name}"))


def _best_name(path: Path) -> str | None:
    try:
        step = read_card(path).validation.get("best_step")
    except (OSError, ValueError):
        return None  # a damaged checkpoint is not resumed from
    return checkpoint_name(step) if isinstance(step, int) else None


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _flush_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # some mounts cannot open folders
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


class HashedFile:
    """Hashes what is written to a file, and keeps the error that PyTorch's writers would hide."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()
        self.bytes = 0
        self.failure: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write all of ``data``."""
        try:
            self._file.write(data)
        except OSError as error:
            self.failure = error
            raise
        self._hash.update(data)
        self.bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how much was written."""
        return self.bytes

    def flush(self) -> None:
        """Hand buffered data to the operating system."""
        self._file.flush()

    def fileno(self) -> int:
        """Flush, and return the descriptor for ``fsync``."""
        self._file.flush()
        return self._file.fileno()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def size_and_hash(self) -> dict[str, Any]:
        """Return size and SHA-256 of what was written, as the card of a checkpoint lists them."""
        return {"bytes": self.bytes, "sha256": self._hash.hexdigest()}


def flush_to_disk(file: IO[Any]) -> None:
    """Wait until a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def skip_crc32() -> Iterator[None]:
    """Let ``torch.save`` leave out CRC-32, a third of its time, which ``torch.load`` does not read."""
    from torch import serialization  # TensorFlow's checkpoints need no torch

    before = serialization.get_crc32_options()
    serialization.set_crc32_options(False)
    try:
        yield
    finally:
        serialization.set_crc32_options(before)

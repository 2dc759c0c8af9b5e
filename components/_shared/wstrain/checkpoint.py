"""Checkpoints: complete, never mistaken for whole when half-written, and checked on reading.

A checkpoint is a folder ``step-00000060`` of ``state.pt`` and ``checkpoint.json``, which has the state's size
and SHA-256. It is written under a temporary name, flushed to the disk and then renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import torch

from wstrain.errors import UserError
from wstrain.manifest import sha256_of

STATE, CARD = "state.pt", "checkpoint.json"
_NAME = re.compile(r"step-(\d{8,})")
_TEMPORARY = ".writing-"


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint that was read and found whole.

    Attributes:
        path: its folder.
        step: optimizer steps done.
        identity: what the training was, see :func:`expect_identity`.
    """

    path: Path
    step: int
    identity: Mapping[str, Any]


def save(
    folder: Path, step: int, state: Mapping[str, Any], identity: Mapping[str, Any], *, keep: int
) -> Path:
    """Write a checkpoint, then remove all but the newest ``keep``.

    Args:
        folder: where checkpoints are kept.
        step: optimizer steps done.
        state: tensors, numbers, texts and containers of them.
        identity: what must be the same to go on from here.
        keep: checkpoints to keep, at least 1.

    Raises:
        UserError: the folder cannot be written, or the disk is full; older checkpoints are untouched.
    """
    name = f"step-{step:08d}"
    temporary, final = folder / f"{_TEMPORARY}{name}", folder / name
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        size, digest = _write_state(temporary / STATE, state)
        card = {"step": step, "bytes": size, "sha256": digest, "identity": dict(identity)}
        with (temporary / CARD).open("w", encoding="utf-8") as file:
            json.dump(card, file, indent=2)
            _flush(file)
        shutil.rmtree(final, ignore_errors=True)  # a damaged one of the same step
        temporary.rename(final)
        _flush_folder(folder)
        for path in _newest_first(folder)[keep:]:
            shutil.rmtree(path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot write checkpoint `{name}`: {reason}",
            "free space for it and resume; older checkpoints are whole",
        ) from error
    return final


def newest(folders: list[Path]) -> Found | None:
    """Find the newest whole checkpoint in some folders, saying on stderr which ones are damaged."""
    candidates = [path for folder in folders for path in _newest_first(folder)]
    found = map(_whole, sorted(candidates, key=_step, reverse=True))
    return next((checkpoint for checkpoint in found if checkpoint is not None), None)


def load(found: Found) -> dict[str, Any]:
    """Read the state of a checkpoint onto the CPU; nothing in it is executed.

    Raises:
        UserError: the file cannot be read here.
    """
    try:
        state: dict[str, Any] = torch.load(found.path / STATE, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        first = str(error).splitlines()[0][:120]
        raise UserError(f"cannot read checkpoint `{found.path.name}`: {first}") from error
    return state


def expect_identity(found: Found, identity: Mapping[str, Any]) -> None:
    """Compare what a checkpoint's training was with what this one is.

    Raises:
        UserError: something differs that the rest of the training depends on; the message has both values.
    """
    for name, wanted in identity.items():
        had = found.identity.get(name)
        if had != wanted:
            raise UserError(
                f"checkpoint `{found.path.name}` was trained with `{name}` {had}, but this run has {wanted}",
                "resume with the same value, or start with an empty `checkpoints` folder",
            )


class _Digesting:
    """A file that hashes what passes; it keeps the error that PyTorch's writer would swallow."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()
        self.bytes = 0
        self.failure: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            self._file.write(data)
        except OSError as error:
            self.failure = error
            raise
        self._hash.update(data)
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _write_state(path: Path, state: Mapping[str, Any]) -> tuple[int, str]:
    with path.open("wb") as file:
        digesting = _Digesting(file)
        try:
            torch.save(dict(state), cast("IO[bytes]", digesting))  # it asks for no more than write()
        except (RuntimeError, OSError) as error:
            raise digesting.failure or OSError(str(error).splitlines()[0]) from error
        _flush(file)
    return digesting.bytes, digesting.hexdigest()


def _whole(path: Path) -> Found | None:
    try:
        return _check(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"warning: checkpoint `{path.name}` is damaged ({error}), so it is passed over"
        print(text, file=sys.stderr, flush=True)
        return None


def _check(path: Path) -> Found:
    card = json.loads((path / CARD).read_text(encoding="utf-8"))
    state = path / STATE
    if state.stat().st_size != card["bytes"]:
        raise ValueError(f"`{STATE}` has {state.stat().st_size} bytes instead of {card['bytes']}")
    if sha256_of(state) != card["sha256"]:
        raise ValueError(f"`{STATE}` has another sha256 than when it was written")
    return Found(path, int(card["step"]), dict(card["identity"]))


def _newest_first(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=_step, reverse=True)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _flush(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # some mounts cannot open folders; the rename is then as durable as they make it
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)

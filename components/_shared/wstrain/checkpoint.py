"""Checkpoints: complete, never mistaken for whole when half-written, and checked on reading.

A checkpoint is a folder ``step-00000060`` with a card, ``checkpoint.json``, that has the size and SHA-256 of
every other file in it: ``state.pt`` where ranks are all alike, or the part of each rank (see
:mod:`wstrain.parts`). It is written under a temporary name, the card last, flushed to the disk and then
renamed.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from wstrain.digesting import Digesting, flush
from wstrain.errors import UserError
from wstrain.manifest import sha256_of

STATE, CARD = "state.pt", "checkpoint.json"
Files = Mapping[str, Mapping[str, Any]]  # size and hash by name
_NAME = re.compile(r"step-(\d{8,})")
_FILE = re.compile(r"\w[\w.-]*|\.metadata")
_TEMPORARY = ".writing-"


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint that was read and found whole.

    Attributes:
        path: its folder.
        step: optimizer steps done.
        identity: what the training was, see :func:`expect_identity`.
        in_parts: whether each rank wrote its own part.
    """

    path: Path
    step: int
    identity: Mapping[str, Any]
    in_parts: bool = False


def save(
    folder: Path,
    step: int,
    state: Mapping[str, Any],
    identity: Mapping[str, Any],
    *,
    keep: int,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a checkpoint of one file, then remove all but the newest ``keep``.

    Args:
        folder: where checkpoints are kept.
        step: optimizer steps done.
        state: tensors, numbers, texts and containers of them.
        identity: what must be the same to go on from here.
        keep: checkpoints to keep, at least 1.
        about: what else its card says.

    Raises:
        UserError: the folder cannot be written, or the disk is full; older checkpoints are untouched.
    """
    temporary = begin(folder, step)
    with writing(temporary):
        files = {STATE: _write_state(temporary / STATE, state)}
    return finish(temporary, files, {**(about or {}), "identity": dict(identity)}, keep=keep)


def begin(folder: Path, step: int) -> Path:
    """Make the folder that a checkpoint is written into, under a temporary name."""
    temporary = folder / f"{_TEMPORARY}step-{step:08d}"
    with writing(temporary):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    return temporary


def finish(temporary: Path, files: Files, card: Mapping[str, Any], *, keep: int) -> Path:
    """Write the card, give the checkpoint its name, and remove all but the newest ``keep``.

    Args:
        temporary: from :func:`begin`.
        files: everything written into it.
        card: what else the card says.
        keep: checkpoints to keep, at least 1.

    Raises:
        UserError: a file is not there, or the card cannot be written.
    """
    folder, name = temporary.parent, temporary.name.removeprefix(_TEMPORARY)
    final = folder / name
    with writing(temporary):
        for file in files:
            _expect_written(temporary, file)
        with (temporary / CARD).open("w", encoding="utf-8") as stream:
            json.dump({"step": _step(final), **card, "files": files}, stream, indent=2)
            flush(stream)
        _flush_folder(temporary)
        shutil.rmtree(final, ignore_errors=True)  # a damaged one of the same step
        temporary.rename(final)
        _flush_folder(folder)
        for path in _newest_first(folder)[keep:]:
            shutil.rmtree(path)
    return final


@contextmanager
def writing(temporary: Path) -> Iterator[None]:
    """Turn what the system refuses into a sentence, and remove what was half-written."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot write checkpoint `{temporary.name.removeprefix(_TEMPORARY)}`: {reason}",
            "free space for it and resume; older checkpoints are whole",
        ) from error


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
    import torch  # noqa: PLC0415  all else here serves frameworks that have no torch

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


def _write_state(path: Path, state: Mapping[str, Any]) -> Mapping[str, Any]:
    import torch  # noqa: PLC0415

    with path.open("wb") as file:
        digesting = Digesting(file)
        try:
            torch.save(dict(state), cast("IO[bytes]", digesting))  # it asks for no more than write()
        except (RuntimeError, OSError) as error:
            raise digesting.failure or OSError(str(error).splitlines()[0]) from error
        flush(file)
    return digesting.card()


def _expect_written(temporary: Path, file: str) -> None:
    # Every rank wrote its part where its own instance sees the folder, which may be another folder than this.
    if not (temporary / file).is_file():
        shutil.rmtree(temporary, ignore_errors=True)
        name = temporary.name.removeprefix(_TEMPORARY)
        raise UserError(
            f"part `{file}` of checkpoint `{name}` was written by its rank, but rank 0 does not see it",
            "bind `checkpoints` to a folder that all instances share",
        )


def _whole(path: Path) -> Found | None:
    try:
        return _check(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"warning: checkpoint `{path.name}` is damaged ({error}), so it is passed over"
        print(text, file=sys.stderr, flush=True)
        return None


def _check(path: Path) -> Found:
    card = json.loads((path / CARD).read_text(encoding="utf-8"))
    files = card["files"]
    if not files:
        raise ValueError(f"`{CARD}` names no files")
    for name, written in files.items():
        if not _FILE.fullmatch(name):
            raise ValueError(f"`{CARD}` names a file `{name}`")
        size = (path / name).stat().st_size
        if size != written["bytes"]:
            raise ValueError(f"`{name}` has {size} bytes instead of {written['bytes']}")
        if sha256_of(path / name) != written["sha256"]:
            raise ValueError(f"`{name}` has another sha256 than when it was written")
    return Found(path, int(card["step"]), dict(card["identity"]), in_parts=STATE not in files)


def _newest_first(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=_step, reverse=True)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


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

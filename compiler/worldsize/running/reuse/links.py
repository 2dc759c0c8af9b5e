"""A step that is reused: its folder holds links to what the run that made it keeps."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from worldsize.running.recording.folder import RunFolder, StepFolder
from worldsize.running.reuse.files import is_name, read, write

NAME = "reused.json"


@dataclass(frozen=True, slots=True)
class Original:
    """Where a reused step ran."""

    run: str
    step: str


def link(folder: StepFolder, original: StepFolder, outputs: Iterable[str], source: Original) -> None:
    """Make the folder of a reused step. Links are relative: the folder of runs may be moved as a whole.

    Raises:
        OSError: It cannot be made.
    """
    pairs = [(folder.code, original.code), (folder.logs, original.logs)]
    pairs += [(folder.outputs / name, original.outputs / name) for name in outputs]
    try:
        folder.outputs.mkdir(parents=True)
        for mine, theirs in pairs:
            mine.symlink_to(os.path.relpath(theirs, mine.parent))
        write(folder.root / NAME, {"run": source.run, "step": source.step})
    except OSError:
        unlink(folder)
        raise


def unlink(folder: StepFolder) -> None:
    """Remove the folder of a reused step; what its links point to stays."""
    shutil.rmtree(folder.root, ignore_errors=True)


def original(folder: StepFolder) -> Original | None:
    """Where a reused step ran; None for one that is not reused."""
    document = read(folder.root / NAME)
    if document is None:
        return None
    run, step = str(document.get("run")), str(document.get("step"))
    return Original(run, step) if is_name(run) and is_name(step) else None


def at(run: RunFolder, source: Original) -> StepFolder:
    """The folder of an original, in the same home as a run."""
    return RunFolder(run.root.parent / source.run).step(source.step)

"""The paths of a run's files: ``<home>/runs/<id>/``, with one folder for each step."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole

HOME = ".worldsize"

REFERENCE = "reference.txt"  # beside a pipeline in Python that was written as a file: `file.py:function`

OTHERS = 0o077


def read_reference(pipeline: Path) -> str:
    """The function of a pipeline in Python that was written as this file; empty for other files."""
    try:
        return untrusted.read_text(pipeline.parent / REFERENCE).strip()
    except OSError:
        return ""


def is_served_job(pipeline: Path) -> bool:
    """Whether a file is a job of the local workspace, which has written it."""
    return pipeline.parts[-4:-2] == ("serve", "jobs")


def ignore_in_git(folder: Path) -> None:
    """Have git ignore a folder of ours and all that is in it.

    Raises:
        OSError: The folder cannot be written.
    """
    ignore = folder / ".gitignore"
    if not os.path.lexists(ignore):
        with contextlib.suppress(FileExistsError):  # another process was faster
            write_whole(ignore, b"*\n", new=True, flush=False)


def show_path(path: Path | str) -> str:
    """A path as the user would write it: relative if it is below the working folder."""
    relative = os.path.relpath(path) if str(path) else ""
    return str(path) if relative.startswith("..") else relative


def show_place(place: str) -> str:
    """A path as :func:`show_path` shows it, or an address."""
    return place if "://" in place else show_path(place)


def make_link(link: Path, target: Path) -> None:
    """Make a relative link, so that the folder of the runs can be moved; replace an earlier one."""
    if link.is_symlink():
        link.unlink()
    link.symlink_to(os.path.relpath(target, link.parent))


class StepFolder(Struct, frozen=True):
    """The paths of one step."""

    root: Path

    @property
    def code(self) -> Path:
        """A copy of the code, the working folder of the command."""
        return self.root / "code"

    @property
    def inputs(self) -> Path:
        """Links to what the step read; commands get the real paths."""
        return self.root / "inputs"

    @property
    def outputs(self) -> Path:
        """One entry per output."""
        return self.root / "outputs"

    @property
    def logs(self) -> Path:
        """``rank-N.log`` of every process."""
        return self.root / "logs"

    @property
    def heartbeats(self) -> Path:
        """The heartbeat of each rank while it runs."""
        return self.root / "heartbeats"

    @property
    def progress(self) -> Path:
        """What the training appends for the live view."""
        return self.root / "progress.jsonl"


class RunFolder(Struct, frozen=True):
    """The paths of one run.

    Args:
        root: The folder, whose name is the run's id.
        name_step: Gives the id that a step has outside of the run, if the caller chooses these ids.
    """

    root: Path
    name_step: Callable[[str], str] | None = None

    @property
    def id(self) -> str:
        """The run's id: sorts by start, unique within its home."""
        return self.root.name

    def step_id(self, name: str) -> str:
        """The id of a step outside of the run, as ``AZUREML_RUN_ID`` has it."""
        return f"{self.id}_{name}" if self.name_step is None else self.name_step(name)

    @property
    def pipeline(self) -> Path:
        """The compiled pipeline, where the run compiled one."""
        return self.root / "pipeline"

    @property
    def events(self) -> Path:
        """The event log."""
        return self.root / "events.jsonl"

    @property
    def outputs(self) -> Path:
        """Links to the outputs that the pipeline itself declares."""
        return self.root / "outputs"

    def step(self, name: str) -> StepFolder:
        """The folder of a step."""
        return StepFolder(self.root / "steps" / name)

"""Where a run keeps what it makes: ``<home>/runs/<id>/``, one folder a step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from worldsize.running.recording.events import now
from worldsize.running.recording.privacy import OTHERS

HOME = ".worldsize"


@dataclass(frozen=True, slots=True)
class StepFolder:
    """The places of one step."""

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
        """One entry an output."""
        return self.root / "outputs"

    @property
    def logs(self) -> Path:
        """``rank-N.log`` of every process."""
        return self.root / "logs"

    @property
    def heartbeats(self) -> Path:
        """A small record of each rank, kept while it runs."""
        return self.root / "heartbeats"

    @property
    def progress(self) -> Path:
        """What the training appends for the live view."""
        return self.root / "progress.jsonl"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The places of one run."""

    root: Path

    @property
    def id(self) -> str:
        """The run's id: sorts by start, unique within its home."""
        return self.root.name

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


# What every run of a home shares, and older versions made readable for everybody.
_SHARED = ("runs", "cache", "artifacts", "environments", "mlflow.db")


def _make_private(home: Path) -> None:
    for path in (home / name for name in _SHARED):
        with contextlib.suppress(OSError):
            mode = path.stat().st_mode
            if mode & OTHERS:
                path.chmod(mode & ~OTHERS)


def create(home: Path, clock: Callable[[], datetime] = now) -> RunFolder:
    """Make the folder of a new run.

    The id is the time in milliseconds. ``mkdir`` decides between runs that start at the same moment:
    whoever finds the folder there takes the next millisecond.

    Raises:
        OSError: The folder cannot be made.
    """
    runs = home / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    _make_private(home)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    time = clock()
    while True:
        root = runs / f"{time:%Y%m%d-%H%M%S}-{time.microsecond // 1000:03}"
        try:
            root.mkdir(mode=0o700)
        except FileExistsError:
            time += timedelta(milliseconds=1)
        else:
            return RunFolder(root.resolve())

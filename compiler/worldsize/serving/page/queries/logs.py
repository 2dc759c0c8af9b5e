"""The logs of a job's processes: which there are, and the end of one as it grows."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from worldsize.base import untrusted
from worldsize.running.launch.logs import Decoder
from worldsize.running.model.folder import RunFolder
from worldsize.running.record.history import RECORD, RunRecord
from worldsize.running.record.json_files import is_file_name, read_json
from worldsize.serving.home import Home
from worldsize.serving.jobs.records import JobRecord

TAIL_BYTES = 256 << 10  # of a log that is shown when it is opened
CHUNK_BYTES = 256 << 10  # read at once while it grows
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Log:
    """A log: ``step`` and ``process`` name it."""

    step: str
    process: str
    path: Path

    @property
    def key(self) -> str:
        """``train/rank-0``."""
        return f"{self.step}/{self.process}"


def run_folder(home: Home, job: JobRecord) -> RunFolder | None:
    """The folder of the run that a job belongs to, if it has begun."""
    if not is_file_name(job.root):
        return None
    folder = RunFolder(home.runs / job.root)
    return folder if folder.root.is_dir() else None


def step_names(home: Home, job: JobRecord) -> list[str]:
    """The steps of the run whose folders belong to a job: its own, or all of a job that was submitted."""
    folder = run_folder(home, job)
    if folder is None:
        return []
    if job.parent is not None:
        return [job.step] if job.step and is_file_name(job.step) else []
    try:
        present = {path.name for path in (folder.root / "steps").iterdir() if path.is_dir()}
    except OSError:
        return []
    planned = [*((read_json(folder.root / RECORD) or {}).get("steps") or {})]  # in the order of the pipeline
    return [name for name in planned if name in present] + sorted(present.difference(planned), key=_natural)


def list_logs(home: Home, job: JobRecord) -> list[Log]:
    """The logs of a job, by step and rank."""
    folder = run_folder(home, job)
    if folder is None:
        return []
    return [
        Log(step, path.stem, path)
        for step in step_names(home, job)
        for path in sorted(folder.step(step).logs.glob("*.log"), key=lambda path: _natural(path.stem))
    ]


def choose_log(logs: Sequence[Log], run: RunRecord) -> Log:
    """The log that a reader wants first: of what failed, else of what runs, else the first."""
    for state in ("failed", "died", "running"):
        for log in logs:
            step = run.steps.get(log.step)
            if step is not None and step.state == state and step.failed_process in (None, log.process):
                return log
    return logs[0]


class LogTail:
    """The end of a growing file: at most ``TAIL_BYTES`` at first, then what is added.

    A file that is replaced, as by another attempt of a step, is read from its beginning.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0  # bytes before the first line that was read
        self._position = -1
        self._inode = 0
        self._decoder = Decoder()

    def read_lines(self, *, final: bool = False) -> list[str]:
        """The lines that were completed since the last call; ``final`` gives an incomplete last one too."""
        try:
            with untrusted.open_file(self.path) as file:
                status = os.fstat(file.fileno())
                lines = self._start(status.st_ino, status.st_size)
                file.seek(self._position)
                data = file.read(max(CHUNK_BYTES, TAIL_BYTES))
        except OSError:
            return []
        drop = self._position > 0 and self._position == self.skipped
        self._position += len(data)
        lines += self._decoder.feed(data, final=final and not data)
        return lines[1:] if drop and lines else lines  # the first is the end of a line that was skipped

    def _start(self, inode: int, size: int) -> list[str]:
        if inode == self._inode and size >= self._position >= 0:
            return []
        again = self._inode != 0
        self._inode, self._decoder = inode, Decoder()
        self._position = self.skipped = max(0, size - TAIL_BYTES)
        return ["", "— the log begins again —", ""] if again else []


def _natural(name: str) -> list[tuple[int, str]]:
    return [(len(part) if part.isdigit() else 0, part) for part in _NUMBERS.split(name)]

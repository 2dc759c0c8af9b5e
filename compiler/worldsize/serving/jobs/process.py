"""The process of a job: which one it is, whether it lives, and how it is asked to end.

It holds a lock in the job's folder for as long as it lives, with its process id inside; the kernel releases
the lock, so a process that has taken over the id of a dead one is never mistaken for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole
from worldsize.serving.home import Home

# The files in the folder of a job.
JOB_FILE, SETTINGS_FILE = "pipeline.yml", "worldsize.yml"
LOCK, OUTPUT = "process.lock", "process.log"
SLOTS, WIDTH = "process.slots", "process.width"  # those that it was lent; the processes of its largest step


PATIENCE_SECONDS = 1.0  # those who look whether a job runs hold the lock for a moment


class AlreadyRunsError(Exception):
    """Another process runs the job."""


@contextlib.contextmanager
def hold_job(folder: Path, *, patience: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Hold the lock of a job's folder, after ``patience`` seconds for those who only look.

    Raises:
        AlreadyRunsError: Another process holds it.
    """
    with (folder / LOCK).open("a+b") as file:
        deadline = time.monotonic() + patience
        while not _locked(file.fileno()):
            if time.monotonic() > deadline:
                raise AlreadyRunsError
            time.sleep(0.01)
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_process(folder: Path) -> int | None:
    """The id of the process that runs a job, or None if none does."""
    try:
        with untrusted.open_file(folder / LOCK) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or b"0") or None
    except (OSError, ValueError):
        pass
    return None


def start_process(
    home: Home, name: str, environment: Mapping[str, str], options: tuple[str, ...]
) -> subprocess.Popen[bytes]:
    """Start the process of a job in a session of its own, so that it outlives the server."""
    with (home.jobs / name / OUTPUT).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "worldsize.serving.jobs.execution", str(home.root), name, *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            start_new_session=True,
        )


def prepare_process(folder: Path, slots: Iterable[int]) -> None:
    """Make what a job's process needs: its log, and a note of its slots for a later server.

    Raises:
        OSError: Nothing can be written.
    """
    (folder / OUTPUT).touch()
    write_whole(folder / SLOTS, " ".join(map(str, slots)).encode(), follow=False, flush=False)


def read_numbers(path: Path) -> tuple[int, ...]:
    """The numbers in one of a job's files; none where they are not known."""
    try:
        return tuple(map(int, untrusted.read_text(path, encoding="ascii").split()))
    except (OSError, ValueError):
        return ()


def signal_process(folder: Path, number: signal.Signals) -> bool:
    """Send a signal to the process of a job; False if there is none."""
    pid = find_process(folder)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
    return True

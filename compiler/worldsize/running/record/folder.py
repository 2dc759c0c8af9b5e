"""The folder of a run on disk: made, private to its user, and locked while the run goes on.

The runner holds the lock, and so do the parents of its processes: a run is over when nothing of it is left,
also where the runner was killed. The kernel releases the lock when its holders die.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from worldsize.running.model.folder import OTHERS, RunFolder
from worldsize.running.record.events import now

# What every run of a home shares, and older versions made readable for everybody.
_SHARED = ("runs", "cache", "artifacts", "environments", "mlflow.db")

LOCK = "lock"
RETRY_SECONDS = 0.05


def _make_private(home: Path) -> None:
    for path in (home / name for name in _SHARED):
        with contextlib.suppress(OSError):
            mode = path.stat().st_mode
            if mode & OTHERS:
                path.chmod(mode & ~OTHERS)


def create_run_folder(home: Path, clock: Callable[[], datetime] = now) -> RunFolder:
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


@contextlib.contextmanager
def private_files() -> Iterator[int]:
    """Make files and folders 0600 and 0700 for a while, in this process and those that it starts.

    The umask is that of the whole process: a thread that makes files meanwhile makes them private too.

    Yields:
        The umask of before, for the processes of steps: what they make is the user's own affair.
    """
    before = os.umask(OTHERS)
    try:
        yield before
    finally:
        os.umask(before)


class AliveError(Exception):
    """The run goes on."""


@contextlib.contextmanager
def hold_lock(root: Path, *, patience: float = 0.0) -> Iterator[int]:
    """Hold the lock of a run's folder.

    Args:
        root: The folder.
        patience: Seconds to wait where the runner is dead and what it had started is being stopped.

    Yields:
        The file descriptor that holds it, for others to inherit.

    Raises:
        AliveError: Somebody else holds it.
        OSError: The file cannot be made.
    """
    deadline = time.monotonic() + patience
    with (root / LOCK).open("a+b") as file:
        while not _locked(file.fileno()):
            if find_runner(root) is not None or time.monotonic() >= deadline:
                raise AliveError
            time.sleep(RETRY_SECONDS)
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield file.fileno()


def is_alive(root: Path) -> bool:
    """Whether a run goes on."""
    try:
        with (root / LOCK).open("rb") as file:
            return not _locked(file.fileno())
    except OSError:  # it never began, or was made by an older version
        return False


def find_runner(root: Path) -> int | None:
    """The pid of a run's runner, None where there is no such process any more."""
    try:
        pid = int((root / LOCK).read_text(encoding="ascii"))
        os.kill(pid, 0)
    except PermissionError:
        return pid
    except (OSError, ValueError, OverflowError):
        return None
    return pid


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody can tell
        return True
    return True

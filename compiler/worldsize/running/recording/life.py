"""Whether a run goes on: a lock on a file of its folder, which the kernel lets go of when its holders die.

The runner holds it, and so do the parents of its processes: a run is over when nothing of it is left, also
where the runner was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

NAME = "lock"
RETRY_SECONDS = 0.05


class AliveError(Exception):
    """The run goes on."""


@contextlib.contextmanager
def held(root: Path, *, patience: float = 0.0) -> Iterator[int]:
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
    with (root / NAME).open("a+b") as file:
        while not _locked(file.fileno()):
            if runner(root) is not None or time.monotonic() >= deadline:
                raise AliveError
            time.sleep(RETRY_SECONDS)
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield file.fileno()


def alive(root: Path) -> bool:
    """Whether a run goes on."""
    try:
        with (root / NAME).open("rb") as file:
            return not _locked(file.fileno())
    except OSError:  # it never began, or was made by an older version
        return False


def runner(root: Path) -> int | None:
    """The pid of a run's runner, None where there is no such process any more."""
    try:
        pid = int((root / NAME).read_text(encoding="ascii"))
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

"""Folders outside a run's own, which last as long as a step: with a lock that says whether anybody uses one.

Processes and namespaces end with the kernel's help; files do not. So each folder holds a lock of those who
use it, which the kernel gives back when they die. A folder whose lock is free is a dead run's, and the next
run removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LOCK = "lock"
YOUNG_SECONDS = 60.0  # a folder without a lock may be one that is just being made


@contextlib.contextmanager
def folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder with a short path, because sockets are made below it, for as long as the context lasts.

    Args:
        prefix: Of its name.
        parent: Where; by default where temporary files are.

    Raises:
        OSError: It cannot be made.
    """
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        new = path / f"{LOCK}.new"
        with new.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            new.rename(path / LOCK)  # whoever sees it finds it held
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def sweep(prefix: str, parent: Path | None = None) -> list[Path]:
    """Remove the folders of runs that have died.

    Args:
        prefix: Of their names.
        parent: Where they are.

    Returns:
        What was removed.
    """
    removed = []
    for path in (parent or Path(tempfile.gettempdir())).glob(f"{prefix}*"):
        with contextlib.suppress(OSError), _abandoned(path) as gone:
            if gone:
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
    return removed


@contextlib.contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Whether it is a folder of ours that nobody uses; nobody can begin to in the meantime."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        yield False
        return
    try:
        lock = (path / LOCK).open("rb")
    except FileNotFoundError:
        yield time.time() - found.st_mtime > YOUNG_SECONDS
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True

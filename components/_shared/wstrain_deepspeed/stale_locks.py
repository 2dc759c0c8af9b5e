"""The folder where torch builds extensions, and the stale locks that a killed build leaves there.

torch builds an extension, such as DeepSpeed's Adam for CPUs, behind a file ``lock``, and waits for as long as
there is one (``torch.utils.file_baton``). A killed build leaves it, and every later start on the machine
would wait forever. A running build has the file open, so a lock that no process has open is stale. Imports
the standard library only: ``worldsize run`` looks before it starts a step.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import util
from pathlib import Path

VARIABLE = "TORCH_EXTENSIONS_DIR"
PATIENCE_SECONDS = 900.0  # for systems that do not show open files; a build takes about a minute
_YOUNG_SECONDS = 1.0  # a file is there a moment before it is open
_SHARED = ("nfs", "cifs", "smb", "fuse", "lustre", "gpfs", "beegfs", "ceph", "9p", "virtiofs", "afs")
_GUARD = ".worldsize"  # locked while locks are removed


def find_root(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where extensions are built.

    Args:
        environment: the variables of the process that builds.
    """
    if chosen := environment.get(VARIABLE):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path("~/Library/Caches/torch_extensions").expanduser()
    # Like torch, which takes an empty variable for the current folder.
    caches = environment.get("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    return Path(os.path.realpath(Path(caches, "torch_extensions")))


def choose_root(torch_version: str) -> Path:
    """Let extensions be built in a folder for this Python, torch and installation only.

    By default torch tells Pythons and CUDA versions apart, but neither its own versions nor installations: an
    extension names the files that it was built from, so two installations would rebuild it in turns, each
    while the other may be loading it.

    Args:
        torch_version: ``torch.__version__``.

    Returns:
        The folder, which the variable names from now on; the user's own where it names one.
    """
    if not os.environ.get(VARIABLE):
        origins = [getattr(util.find_spec(name), "origin", None) for name in ("torch", "deepspeed")]
        key = hashlib.sha256(repr((sys.version, torch_version, origins)).encode()).hexdigest()[:8]
        python = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
        os.environ[VARIABLE] = str(find_root() / f"{python}_torch{torch_version}_{key}")
    return find_root()


def remove_stale_locks(folder: Path) -> list[Path]:
    """Remove the locks that no build holds.

    Args:
        folder: where extensions are built.

    Returns:
        The locks that were removed.
    """
    if not (locks := _locks(folder)):
        return []
    removed = []
    with contextlib.suppress(OSError), (folder / _GUARD).open("w") as guard:
        # Otherwise a second process could remove the lock of a build that the first one has begun.
        fcntl.flock(guard, fcntl.LOCK_EX)
        removed = [lock for lock in locks if _remove(lock)]
    return removed


def _locks(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*/lock"), *folder.glob("*/*/lock")])


def _remove(lock: Path) -> bool:
    try:
        if not _is_stale(lock):
            return False
        lock.unlink()
    except OSError:
        return False
    return True


def _is_stale(lock: Path) -> bool:
    status = lock.stat()
    if sys.platform != "linux" or status.st_uid != os.geteuid() or _is_shared(lock.parent.stat().st_dev):
        return time.time() - status.st_mtime > PATIENCE_SECONDS
    wait = status.st_mtime + _YOUNG_SECONDS - time.time()
    time.sleep(min(max(wait, 0.0), _YOUNG_SECONDS))
    return not any(_same(status, opened) for opened in _open_files())


def _is_shared(device: int) -> bool:
    """Whether a file system is one that other machines build in too."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == number:
            return after.startswith(_SHARED)
    return False


def _open_files() -> Iterator[os.stat_result]:
    """The files that processes of this user have open."""
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            yield path.stat()


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)

"""Reserves what a step needs while it runs: free ports, and folders outside of the run's folder.

The kernel ends processes and namespaces, but does not remove files. So each folder contains a lock that its
users hold, and that the kernel releases when they die. A folder whose lock is free belongs to a dead run, and
the next run removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from worldsize.base import untrusted

LOCK = "lock"
YOUNG_SECONDS = 60.0  # a folder without a lock may be about to get one
MEMORY = Path("/dev/shm")  # noqa: S108 - shared memory belongs there; the folder in it is ours alone
MPI_PARENT = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else None
MPI_PREFIX, NODES_PREFIX = "worldsize-mpi-", "worldsize-nodes-"  # of folders


@contextlib.contextmanager
def reserve_ports(count: int) -> Iterator[tuple[int, ...]]:
    """Hold free TCP ports for as long as the context lasts.

    Each port is bound but not listened on. With SO_REUSEADDR set *after* the bind, Linux lets a server
    that sets it too (torch, gRPC, nearly all) listen there, but does not give the port to a program that
    asks for any free port. So two concurrent runs cannot get the same port. Other systems refuse the
    second bind, so the ports are released before they are used.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(_open_bound()) for _ in range(count)]
        numbers = tuple(int(holder.getsockname()[1]) for holder in sockets)
        if sys.platform != "linux":
            stack.close()
        yield numbers


def _open_bound() -> socket.socket:
    # The wildcard address is what torch's store binds, so that is what must be free.
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return _bind(socket.AF_INET6, "::")
    return _bind(socket.AF_INET, "0.0.0.0")  # noqa: S104 - never listened on


def _bind(family: socket.AddressFamily, address: str) -> socket.socket:
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        holder.bind((address, 0))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        holder.close()
        raise
    return holder


@contextlib.contextmanager
def scratch_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder with a short path, because sockets are made below it, until the context ends."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        new = path / f"{LOCK}.new"
        with new.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            new.rename(path / LOCK)  # it is held when it becomes visible
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned_folders(prefix: str, parent: Path | None = None) -> list[Path]:
    """Remove the folders with a prefix that belong to dead runs, and return them."""
    removed = []
    for path in (parent or Path(tempfile.gettempdir())).glob(f"{prefix}*"):
        with contextlib.suppress(OSError), _hold_abandoned(path) as gone:
            if gone:
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
    return removed


@contextlib.contextmanager
def _hold_abandoned(path: Path) -> Iterator[bool]:
    """Whether it is an unused folder of this user, which stays unused while the context lasts."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        yield False
        return
    try:
        lock = untrusted.open_file(path / LOCK)
    except FileNotFoundError:
        yield time.time() - status.st_mtime > YOUNG_SECONDS
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True

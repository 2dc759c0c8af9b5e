"""The program that forks trackers: ``python -m worldsize.running.record.tracker_server HOME SOCKET``.

It imports MLflow once, listens on a socket in a folder that only its user may enter, and ends when its
standard input does. Each tracker is a fork, so it shares the imported modules.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
from pathlib import Path

from worldsize.running.record import tracker
from worldsize.running.record.tracking import ANSWER_SECONDS, LINK, describe_python
from worldsize.tracking.database import prepared_database

# What a tracker imports after MLflow itself.
MODULES = (
    "mlflow",
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.db.utils",
    "mlflow.store.model_registry.sqlalchemy_store",
    "mlflow.tracking.client",
    "sqlalchemy.dialects.sqlite",
    "alembic.script",
)


def main() -> None:
    """Serve until standard input ends; ``argv`` has the home folder and the path of the socket."""
    home, path = Path(sys.argv[1]).absolute(), sys.argv[2]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets ended trackers
    for module in MODULES:
        importlib.import_module(module)
    with prepared_database(home):
        pass
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(64)
        link = home / LINK
        _make_link(link, path)
        while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
            if listener in ready:
                _accept(home, listener)
        with contextlib.suppress(OSError):
            if str(link.readlink()) == path:
                link.unlink()
    Path(path).unlink(missing_ok=True)


def _make_link(link: Path, path: str) -> None:
    part = link.with_name(f"{link.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    part.symlink_to(path)
    part.replace(link)


def _accept(home: Path, listener: socket.socket) -> None:
    connection, _ = listener.accept()
    connection.settimeout(ANSWER_SECONDS)
    descriptors: list[int] = []
    with connection, contextlib.suppress(OSError, ValueError):
        caller, descriptors, _, _ = socket.recv_fds(connection, 4096, 2)
        if caller == describe_python() and len(descriptors) == 2:
            pid = os.fork()
            if pid == 0:
                listener.close()
                _become_tracker(home, descriptors)
            connection.sendall(str(pid).encode())
    for descriptor in descriptors:
        os.close(descriptor)


def _become_tracker(home: Path, descriptors: list[int]) -> None:
    """Serve one run in a fork, which keeps the connection open until it ends."""
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        tracker.serve_runner(home)
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()

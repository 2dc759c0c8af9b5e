"""A tracker that a server of the home forks, so that a run does not wait for the import of MLflow.

The server is found by a link in the home. It gets the ends of the pipes for the tracker's input and output;
the connection stays open in the tracker only, and its end is that of the tracker.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

LINK = "tracker"  # in the home, to the server's socket; a socket's own path must be short
ANSWER_SECONDS = 5.0


class ForkedTracker:
    """The process of a tracker, with the methods of :class:`subprocess.Popen` that a tracker needs."""

    def __init__(self, pid: int, connection: socket.socket, stdin: BinaryIO) -> None:
        self.pid = pid
        self.stdin = stdin
        self._connection = connection

    def poll(self) -> int | None:
        """0 if it has ended, else None."""
        try:
            self.wait(0)
        except subprocess.TimeoutExpired:
            return None
        return 0

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            TimeoutExpired: It has not.
        """
        if not select.select([self._connection], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("tracker", timeout or 0)
        return 0

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it lives."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def fork_tracker(home: Path, output: int) -> ForkedTracker | None:
    """Ask the server of a home for a tracker that writes to ``output``; None if there is no server.

    A server that runs another Python, which may have another MLflow, refuses.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    reading, writing = os.pipe()
    try:
        connection.connect(str((home / LINK).readlink()))
        socket.send_fds(connection, [describe_python()], [reading, output])
        pid = int(connection.recv(32) or b"0")
    except (OSError, ValueError):
        pid = 0
    os.close(reading)
    if not pid:
        os.close(writing)
        connection.close()
        return None
    return ForkedTracker(pid, connection, os.fdopen(writing, "wb", buffering=0))


def describe_python() -> bytes:
    """Which Python runs: its executable in its environment."""
    return f"{sys.prefix}\n{sys.version}".encode()

"""The tracker's process, which is replaced if it is lost; sends documents and reads its answers."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from worldsize.running.launch.supervisor import LivenessTimer

TRACKER = Path(__file__).with_name("tracker.py")
KILL_SECONDS = 5.0
VARIABLES = {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"}


class TrackerProcess:
    """A tracker and its replacements, which all answer on the same pipe."""

    def __init__(self, home: Path) -> None:
        self.fault: str | None = None  # why it must be replaced
        self._home = home
        self._reading, self._writing = os.pipe()  # stays open: one descriptor for a selector
        os.set_blocking(self._reading, False)
        self._rest = self._unsent = b""
        self.launch()

    def launch(self) -> None:
        """Start a tracker."""
        self.fault, self._rest, self._unsent = None, b"", b""
        self._liveness = LivenessTimer()
        forked = fork_tracker(self._home, self._writing)
        self._process: subprocess.Popen[bytes] | ForkedTracker = forked or subprocess.Popen(
            [sys.executable, str(TRACKER), str(self._home)],
            stdin=subprocess.PIPE,
            stdout=self._writing,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **VARIABLES},
            start_new_session=True,  # a Ctrl-C is for the runner to handle
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def fileno(self) -> int:
        """What a selector waits on."""
        return self._reading

    def send(self, document: Mapping[str, Any]) -> None:
        """Send one document; what the pipe does not accept now is sent by :meth:`look`."""
        self._unsent += json.dumps(document).encode() + b"\n"
        self._flush()

    def read(self) -> Iterator[dict[str, Any]]:
        """The new answers; does not wait."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._reading, 1 << 16):
                self._liveness.reset()
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                yield from (answer for answer in map(json.loads, lines) if "alive" not in answer)

    def look(self) -> float:
        """Check that it is alive, else set :attr:`fault`; the seconds of silence since the last check."""
        self._flush()
        before = self._liveness.seconds
        if self._process.poll() is not None:
            self.fault = self.fault or "the process that talks to MLflow has died"
        elif self._liveness.has_expired(self._process.pid):
            self.fault = self.fault or "the process that talks to MLflow does not answer"
        return self._liveness.seconds - before

    def kill(self) -> None:
        """Kill it, so that it writes nothing more."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_SECONDS)
        self._close_input()

    def close(self, patience: float) -> None:
        """Close its input, and wait until it has ended."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)
        self._close_input()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
        os.close(self._reading)
        os.close(self._writing)

    def _flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the pipe is full or closed
            assert self._process.stdin is not None
            while self._unsent:
                self._unsent = self._unsent[os.write(self._process.stdin.fileno(), self._unsent) :]

    def _close_input(self) -> None:
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()


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
        return 0 if select.select([self._connection], [], [], 0)[0] else None

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

"""Processes that have libraries loaded and fork for every call (`tests/components/warm_start.py`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SCRIPT = Path(__file__).parents[1] / "components" / "warm_start.py"
MIB = 1 << 20 if sys.platform == "darwin" else 1 << 10  # of getrusage's unit


def call_command(server: Path) -> list[str]:
    """What to write before a command of Python for it to be a fork of the server with this socket."""
    return [sys.executable, "-S", "-E", str(SCRIPT), "call", str(server)]


class WarmServers:
    """The servers of a session, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[subprocess.Popen[bytes]] = []
        self._sockets: dict[tuple[str, ...], Path] = {}

    def find(
        self, libraries: Sequence[str], *, base: Sequence[str] = (), env: dict[str, str] | None = None
    ) -> Path:
        """The socket of the server that has loaded `base` and `libraries`.

        It is a fork of the one that has loaded `base`: torch and MLflow take seconds, and half a gigabyte.
        """
        key = (*base, *libraries)
        if key not in self._sockets:
            start = call_command(self.find(base, env=env)) if base else []
            path = self._folder / str(len(self._servers))
            command = [*start, sys.executable, str(SCRIPT), "serve", str(path), *libraries]
            # Where the tests are killed, their end of the pipe closes, and the server ends.
            server = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | (env or {})
            )
            self._servers.append(server)
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            self._sockets[key] = path  # not before: a test may run out of time while they load
        return self._sockets[key]

    def stop(self) -> None:
        """End them, the forks of others first."""
        for server in reversed(self._servers):
            server.terminate()
            server.communicate(timeout=20)


@dataclass(frozen=True)
class Ended:
    """How a call ended, what it said, and what it took: processor seconds, and the most memory in MiB.

    A fork's memory counts the libraries that it found loaded, as a process counts those that it loads.
    """

    returncode: int
    stdout: str
    stderr: str
    seconds: float
    memory: int


def call_fork(
    server: Path,
    arguments: list[str],
    *,
    cwd: Path,
    env: dict[str, str],
    limits: tuple[int, int],
    timeout: float,
) -> Ended:
    """Run `arguments` in a fork of the server; it is killed where it takes longer than `timeout` seconds."""
    request = {"arguments": arguments, "cwd": str(cwd), "env": env, "limits": limits}
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.settimeout(timeout)
        connection.connect(str(server))
        socket.send_fds(connection, [b" "], [nothing.fileno(), out.fileno(), err.fileno()])
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile() as answers:  # it dies with this connection
            answers.readline()
            status, seconds, memory = answers.readline().split()
        return Ended(int(status), _read(out), _read(err), float(seconds), int(memory) // MIB)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")

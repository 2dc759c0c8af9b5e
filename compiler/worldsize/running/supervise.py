"""One step's group of processes, seen from the runner: start it, hear of it, stop it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from worldsize.running.processes import Process

if TYPE_CHECKING:
    from typing_extensions import Self

GUARD = Path(__file__).with_name("guard.py")
GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL, one budget for the whole group
MARGIN_SECONDS = 7.0  # what the guard may take beyond that before it is given up


@dataclass(frozen=True, slots=True)
class Ended:
    """A process is over. ``status`` is its exit status, or the negative number of a signal."""

    process: Process
    status: int


class Group:
    """The running processes of one step; a context manager that leaves none of them behind.

    Args:
        processes: What to start.
        cwd: Their working folder.
        logs: The folder for ``<name>.log`` of each.
        environment: The environment that the processes' own variables are added to.
        grace: Seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        *,
        cwd: Path,
        logs: Path,
        environment: Mapping[str, str] | None = None,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self.processes = tuple(processes)
        self.ended: list[Ended] = []
        self.left: tuple[int, ...] = ()  # processes that even SIGKILL did not end
        self.lost = False  # whether the guard died before its group was over
        self._pids: list[int] = []
        self._grace = grace
        self._done = False
        self._rest = b""
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self._send(
            {
                "processes": [
                    {"argv": each.argv, "env": dict(each.env), "log": str(logs / f"{each.name}.log")}
                    for each in self.processes
                ],
                "cwd": str(cwd),
                "grace": grace,
            }
        )

    @property
    def done(self) -> bool:
        """Whether nothing of the group runs any more."""
        return self._done

    @property
    def failure(self) -> Ended | None:
        """The process that failed first."""
        return next((each for each in self.ended if each.status != 0), None)

    def fileno(self) -> int:
        """What a selector waits on."""
        assert self._guard.stdout is not None
        return self._guard.stdout.fileno()

    def read(self) -> list[Ended]:
        """Take in what has happened (blocks where nothing has): the processes that ended since."""
        before = len(self.ended)
        chunk = os.read(self.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if not chunk and not self._done:
            self._guard_died()
        return self.ended[before:]

    def stop(self) -> None:
        """Ask the group to end; what has not after the grace time is killed. Returns at once."""
        self._send("stop")

    def kill(self) -> None:
        """End the group without grace. Returns at once."""
        self._send("kill")

    def wait(self) -> None:
        """Wait for the group to end by itself."""
        while not self._done:
            self.read()

    def close(self) -> None:
        """Stop whatever still runs, and return when it is gone."""
        stdin, stdout = self._guard.stdin, self._guard.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(OSError):
            stdin.close()
        deadline = time.monotonic() + self._grace + MARGIN_SECONDS
        try:
            self._guard.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        while not self._done:
            self.read()
        stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, event: dict[str, object]) -> None:
        if event["event"] == "started":
            self._pids.append(int(str(event["pid"])))
        elif event["event"] == "ended":
            process = self.processes[int(str(event["index"]))]
            self.ended.append(Ended(process, int(str(event["status"]))))
        elif event["event"] == "done":
            left = event["left"]
            self.left = tuple(left) if isinstance(left, list) else ()
            self._done = True

    def _guard_died(self) -> None:
        """The kernel has killed the ranks; what they started is still in their sessions."""
        for pid in self._pids:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self._done = self.lost = True

    def _send(self, document: object) -> None:
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # a guard that is gone has nothing left to stop
            self._guard.stdin.write(json.dumps(document).encode() + b"\n")
            self._guard.stdin.flush()

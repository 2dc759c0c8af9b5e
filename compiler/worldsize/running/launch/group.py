"""A step's group of processes as the runner controls it: start it, read its events, stop it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.running.launch.programs.guard import REPORTS
from worldsize.running.launch.reserve import MPI_PARENT, MPI_PREFIX, scratch_folder
from worldsize.running.launch.supervisor import GRACE_SECONDS, MARGIN_SECONDS, LivenessTimer, Supervisor
from worldsize.running.model.process import Process, walk_processes

LOOK_SECONDS = 0.15


class EndedProcess(Struct, frozen=True):
    """A process that has ended. ``status`` is its exit status, or the negative number of a signal.

    ``told`` says whether it, or the whole group, was asked to end before.
    """

    process: Process
    status: int
    told: bool = False

    def is_failure(self) -> bool:
        """Whether it failed; a process that serves is ended when it is no longer needed."""
        return self.status != 0 and not (self.told and self.process.serves)


class Group(contextlib.AbstractContextManager["Group"]):
    """The running processes of one step; a context manager that leaves none of them behind.

    Args:
        processes: What to start.
        supervisor: Who forks their guard.
        cwd: Their working folder.
        logs: The folder for ``<name>.log`` of each.
        grace: Seconds between SIGTERM and SIGKILL.

    Raises:
        OSError: The guard cannot be reached.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        supervisor: Supervisor,
        *,
        cwd: Path,
        logs: Path,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self.processes = tuple(walk_processes(processes))
        self.ended: list[EndedProcess] = []
        self.left: tuple[int, ...] = ()  # processes that even SIGKILL did not end
        self.lost: str | None = None  # how the guard was lost before its group ended
        self.guard: int | None = None  # its pid
        self._pids: list[int] = []
        self._leaders = {self.processes.index(process) for process in processes}  # of their own sessions
        self._grace = grace
        self.done = False  # whether all processes of the group have ended
        self._rest = b""
        self._supervisor = supervisor
        self._liveness = LivenessTimer()
        self._line = supervisor.connect()
        self._stack = contextlib.ExitStack()
        shares = any(process.members for process in processes)
        self._folder = self._stack.enter_context(scratch_folder(MPI_PREFIX, MPI_PARENT)) if shares else None
        requests = [make_request(process, self.processes, logs, self._folder) for process in processes]
        folder = None if self._folder is None else str(self._folder)
        self._send({"processes": requests, "cwd": str(cwd), "grace": grace, "folder": folder})

    @property
    def failure(self) -> EndedProcess | None:
        """The process that failed first, preferably one that was not asked to end."""
        return min(filter(EndedProcess.is_failure, self.ended), key=lambda ended: ended.told, default=None)

    @property
    def unfinished(self) -> list[Process]:
        """The ranks that have not ended."""
        over = {id(exited.process) for exited in self.ended}
        return [process for process in self.ranks if id(process) not in over]

    @property
    def ranks(self) -> list[Process]:
        """The processes that run the command."""
        return [process for process in self.processes if not process.members]

    def fileno(self) -> int:
        """What a selector waits on."""
        return self._line.fileno()

    def read(self) -> list[EndedProcess]:
        """Read the next events, wait for them if necessary, and return the processes that have ended."""
        before = len(self.ended)
        try:
            chunk = self._line.recv(1 << 16)
        except ConnectionError:
            chunk = b""
        self._liveness.reset()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if not chunk and not self.done:
            self._guard_died("the process that supervised it was killed")
        return self.ended[before:]

    def look(self) -> bool:
        """Check that the guard works: a stopped one is continued, a silent one is given up."""
        if not self.done and self._liveness.has_expired(self.guard or self._supervisor.pid):
            if self.guard is None:
                self._supervisor.give_up()
            self._give_up()
            return False
        return True

    def stop(self) -> None:
        """Ask the group to end; after the grace period it is killed. Returns immediately."""
        self._send("stop")

    def kill(self) -> None:
        """Kill the group. Returns immediately."""
        self._send("kill")

    def wait(self) -> None:
        """Wait for the group to end."""
        self._wait(float("inf"))

    def close(self) -> None:
        """Stop all remaining processes, and return when they have ended."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        self._wait(time.monotonic() + self._grace + MARGIN_SECONDS)
        self._line.close()
        self._stack.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, deadline: float) -> None:
        while not self.done and self.look():
            if select.select([self._line], [], [], LOOK_SECONDS)[0]:
                self.read()
            elif time.monotonic() >= deadline:
                self._give_up()

    def _give_up(self) -> None:
        """Kill a guard that does not answer in time."""
        if self.guard is not None:
            with contextlib.suppress(OSError):
                os.kill(self.guard, signal.SIGKILL)
        self._guard_died("the process that supervised it did not answer")

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "guarded":
            self.guard = event["pid"]
        elif event["event"] == "started":
            if event["index"] in self._leaders:
                self._pids.append(event["pid"])
        elif event["event"] == "ended":
            process = self.processes[event["index"]]
            self.ended.append(EndedProcess(process, event["status"], told=event["told"]))
        elif event["event"] == "abandoned":
            self.lost = "the process that starts the processes of the run was killed"
        elif event["event"] == "done":
            self.left, self.done = tuple(event["left"]), True

    def _guard_died(self, how: str) -> None:
        """Kill the sessions of the ranks: the kernel has killed the ranks, but not what they started."""
        for pid in self._pids:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self.done, self.lost = True, how

    def _send(self, document: object) -> None:
        with contextlib.suppress(OSError):  # a guard that is gone has nothing to stop
            self._line.sendall(json.dumps(document).encode() + b"\n")


def make_request(
    process: Process, processes: Sequence[Process], logs: Path, shared: Path | None
) -> dict[str, Any]:
    """The request to the guard to start one process of the plan.

    The guard and the members refer to processes by their index in ``processes``. The folder ``shared`` is not
    None if the process has members.
    """
    env = dict(process.env)
    if shared is not None:
        env = {**dict.fromkeys(process.private_folder, str(shared)), **env}
    if process.members:
        # The plan of a launcher's ranks for their parents, with variables that differ from the launcher's.
        ranks = [
            {
                "index": processes.index(rank),
                "env": {name: value for name, value in rank.env.items() if process.env.get(name) != value},
                "log": str(logs / f"{rank.name}.log"),
            }
            for rank in process.members
        ]
        table = {"reports": f"{shared}/{REPORTS}", "rank": process.rank_variable, "members": ranks}
        env["WORLDSIZE_MEMBERS"] = json.dumps(table)
    return {
        "index": processes.index(process),
        "argv": process.argv,
        "env": env,
        "log": str(logs / f"{process.name}.log"),
        "serves": process.serves,
        "launches": bool(process.members),
    }

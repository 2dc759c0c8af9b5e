"""One step's group of processes, seen from the runner: start it, hear of it, stop it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from worldsize.running.starting import private
from worldsize.running.starting.processes import Process, every
from worldsize.running.supervising.silence import Silence

if TYPE_CHECKING:
    from typing_extensions import Self

PROGRAM = Path(__file__).with_name("warden.py")
LOOK_SECONDS = 0.15
GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL, one budget for the whole group
MARGIN_SECONDS = 7.0  # what the guard may take beyond that before it is given up


@dataclass(frozen=True, slots=True)
class Ended:
    """A process is over. ``status`` is its exit status, or the negative number of a signal.

    ``told`` says whether it, or the whole group, had been asked to end before.
    """

    process: Process
    status: int
    told: bool = False


class Warden:
    """The process that forks a guard for each group of a run; a context manager.

    Args:
        environment: What the processes' own variables are added to; by default the runner's.
        held: A descriptor that it keeps open until the last process is gone: the lock of the run.
        umask: Of the processes; by default the runner's.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, held: int | None = None, umask: int = -1
    ) -> None:
        self._environment, self._held, self._umask = environment, held, umask
        self._silent: list[subprocess.Popen[bytes]] = []  # that were given up while they may have guards
        self._spawn()

    def _spawn(self) -> None:
        held = self._held
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), *([] if held is None else [str(held)])],
                stdin=theirs.fileno(),
                pass_fds=() if held is None else (held,),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,  # a Ctrl-C is for the runner to handle
                umask=self._umask,
            )

    def connect(self) -> socket.socket:
        """A line to the guard of a new group; a warden that is dead has a successor.

        Raises:
            OSError: There can be none.
        """
        if self._process.poll() is not None:
            self._control.close()
            self._spawn()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        return ours

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._process.pid

    def give_up(self) -> None:
        """Have another start the groups that come; this one stays, because guards end without it."""
        self._silent.append(self._process)
        self._control.close()
        self._spawn()

    def close(self) -> None:
        """Let the warden go; it ends once every group is over."""
        self._control.close()
        for process in (self._process, *self._silent):
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGCONT)
            try:
                process.wait(GRACE_SECONDS + MARGIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Group:
    """The running processes of one step; a context manager that leaves none of them behind.

    Args:
        processes: What to start.
        warden: Who forks their guard.
        cwd: Their working folder.
        logs: The folder for ``<name>.log`` of each.
        grace: Seconds between SIGTERM and SIGKILL.

    Raises:
        OSError: The guard cannot be reached.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        warden: Warden,
        *,
        cwd: Path,
        logs: Path,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self.processes = tuple(every(processes))
        self.ended: list[Ended] = []
        self.left: tuple[int, ...] = ()  # processes that even SIGKILL did not end
        self.lost: str | None = None  # how the guard was lost before its group was over
        self.guard: int | None = None  # its pid
        self._pids: list[int] = []
        self._leaders = {self.processes.index(each) for each in processes}  # of sessions of their own
        self._grace = grace
        self._done = False
        self._rest = b""
        self._warden = warden
        self._silence = Silence()
        self._line = warden.connect()
        self._stack = contextlib.ExitStack()
        shares = any(each.members for each in processes)
        self._folder = self._stack.enter_context(private.folder()) if shares else None
        self._send(
            {
                "processes": [
                    private.request(each, self.processes, logs, self._folder) for each in processes
                ],
                "cwd": str(cwd),
                "grace": grace,
                "folder": None if self._folder is None else str(self._folder),
            }
        )

    @property
    def done(self) -> bool:
        """Whether nothing of the group runs any more."""
        return self._done

    @property
    def failure(self) -> Ended | None:
        """The process that failed first, of its own accord where there is one such.

        One that serves is ended by us once it is no longer needed, which is no failure.
        """
        failed = [each for each in self.ended if each.status != 0 and not (each.told and each.process.serves)]
        return next((each for each in failed if not each.told), failed[0] if failed else None)

    @property
    def unfinished(self) -> list[Process]:
        """The ranks that have not ended."""
        over = {id(each.process) for each in self.ended}
        return [each for each in self.ranks if id(each) not in over]

    @property
    def ranks(self) -> list[Process]:
        """The processes that run the command."""
        return [each for each in self.processes if not each.members]

    def fileno(self) -> int:
        """What a selector waits on."""
        return self._line.fileno()

    def read(self) -> list[Ended]:
        """Take in what has happened (blocks where nothing has): the processes that ended since."""
        before = len(self.ended)
        try:
            chunk = self._line.recv(1 << 16)
        except ConnectionError:
            chunk = b""
        self._silence.end()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if not chunk and not self._done:
            self._guard_died("the process that watched over it was killed")
        return self.ended[before:]

    def look(self) -> bool:
        """See whether the guard still works; a stopped one is continued. False once it is given up."""
        if not self._done and self._silence.last(self.guard or self._warden.pid):
            if self.guard is None:
                self._warden.give_up()
            self._give_up()
            return False
        return True

    def stop(self) -> None:
        """Ask the group to end; what has not after the grace time is killed. Returns at once."""
        self._send("stop")

    def kill(self) -> None:
        """End the group without grace. Returns at once."""
        self._send("kill")

    def wait(self) -> None:
        """Wait for the group to end by itself."""
        while not self._done and self.look():
            if select.select([self._line], [], [], LOOK_SECONDS)[0]:
                self.read()

    def close(self) -> None:
        """Stop whatever still runs, and return when it is gone."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + self._grace + MARGIN_SECONDS
        while not self._done and self.look():
            if select.select([self._line], [], [], LOOK_SECONDS)[0]:
                self.read()
            elif time.monotonic() >= deadline:
                self._give_up()
        self._line.close()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _give_up(self) -> None:
        """A guard that does not answer in time is itself stuck."""
        if self.guard is not None:
            with contextlib.suppress(OSError):
                os.kill(self.guard, signal.SIGKILL)
        self._guard_died("the process that watched over it did not answer")

    def _take(self, event: dict[str, object]) -> None:
        if event["event"] == "guarded":
            self.guard = int(str(event["pid"]))
        elif event["event"] == "started":
            if int(str(event["index"])) in self._leaders:
                self._pids.append(int(str(event["pid"])))
        elif event["event"] == "ended":
            process = self.processes[int(str(event["index"]))]
            self.ended.append(Ended(process, int(str(event["status"])), told=bool(event["told"])))
        elif event["event"] == "abandoned":
            self.lost = "the process that starts those of the run was killed"
        elif event["event"] == "done":
            left = event["left"]
            self.left = tuple(left) if isinstance(left, list) else ()
            self._done = True

    def _guard_died(self, how: str) -> None:
        """The kernel has killed the ranks; what they started is still in their sessions."""
        for pid in self._pids:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self._done, self.lost = True, how

    def _send(self, document: object) -> None:
        with contextlib.suppress(OSError):  # a guard that is gone has nothing left to stop
            self._line.sendall(json.dumps(document).encode() + b"\n")

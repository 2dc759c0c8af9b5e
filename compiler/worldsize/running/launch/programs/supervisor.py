"""The program that forks the guards of a run, one for each group of processes; see ``guard.py``.

It is started by :mod:`worldsize.running.launch.group` without the packages of this Python, imports
the standard library and the file beside it only, and has one thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from worldsize.running.launch.programs import guard
else:
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - starts faster
    import guard


class Supervisor:
    """Forks a guard for each socket that the runner sends, and takes in what a killed guard leaves."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.runner = os.getppid()
        self.guards: set[int] = set()
        self.wake = guard.Wake()
        self.open, self.sweep_until = True, 0.0

    def serve(self) -> None:
        """Serve until the runner is gone and every group is over."""
        while self.open or self.guards or time.monotonic() < self.sweep_until:
            sources = [self.wake.reading, *([self.control.fileno()] if self.open else [])]
            ready, _, _ = select.select(sources, [], [], guard.TICK_SECONDS)
            if self.wake.reading in ready:
                os.read(self.wake.reading, 1 << 12)
            if self.open and self.control.fileno() in ready:
                self.take()
            if os.getppid() != self.runner:
                self.open = False
            self.reap()

    def take(self) -> None:
        """Fork a guard for the group that was sent."""
        message, descriptors, _, _ = socket.recv_fds(self.control, 1, 1)
        self.open = bool(message)
        for connection in descriptors:
            pid = os.fork()
            if pid == 0:
                self.become_guard(connection)
            self.guards.add(pid)
            os.close(connection)

    def become_guard(self, connection: int) -> NoReturn:
        """The forked child's life: the guard of one group."""
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), self.control.detach())
            os.close(self.wake.reading)
            os.close(self.wake.writing)
            guard.serve_group(guard.Line(connection))
            status = 0
        finally:
            os._exit(status)

    def reap(self) -> None:
        """Collect what has ended; after a guard that was killed, kill what it left for a while."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in self.guards and ended[1] != 0:
                    self.sweep_until = time.monotonic() + guard.UNKILLABLE_SECONDS
                self.guards.discard(ended[0])
        if guard.LINUX and time.monotonic() < self.sweep_until:
            for pid, _ in guard.families().get(os.getpid(), []):
                if pid not in self.guards:
                    for below, _ in [*guard.descendants(pid), (pid, 0)]:
                        guard.quietly(os.kill, below, signal.SIGKILL)


def main() -> None:
    """Be the supervisor of one run; descriptor 0 is the socket on which the runner sends others.

    A descriptor named in the arguments is the lock of the run: held by supervisors and guards, by no rank.
    """
    for word in sys.argv[1:]:
        os.set_inheritable(int(word), False)
    guard.prctl(guard.PR_SET_CHILD_SUBREAPER, 1)
    with socket.socket(fileno=0) as control:
        Supervisor(control).serve()


if __name__ == "__main__":
    main()

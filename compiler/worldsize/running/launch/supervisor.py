"""The supervisor of a run as the runner controls it, and the time that a helper process may be silent.

Each helper process of a run reports once a second. A silent one may be stopped, so it is continued, which
does not harm a slow one. One that stays silent is given up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

CONTINUE_SECONDS = 3.0
LOST_SECONDS = 30.0  # importing large libraries from a slow disk takes many seconds
LONGEST_LOOK_SECONDS = 1.0  # of the runner; it may have been stopped itself

PROGRAM = Path(__file__).with_name("programs") / "supervisor.py"
GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL, one budget for the whole group
MARGIN_SECONDS = 7.0  # what the guard may take in addition before it is given up


class LivenessTimer:
    """Counts the seconds in which one process reported nothing while the runner listened."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = 0.0
        self._clock = clock
        self._looked = clock()

    def reset(self) -> None:
        """The process has reported."""
        self.seconds = 0.0

    def has_expired(self, pid: int | None) -> bool:
        """Count the time since the last look; whether to give the process up, which is continued first."""
        now = self._clock()
        self.seconds += min(now - self._looked, LONGEST_LOOK_SECONDS)
        self._looked = now
        if self.seconds >= CONTINUE_SECONDS and pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        return self.seconds >= LOST_SECONDS


class Supervisor(contextlib.AbstractContextManager["Supervisor"]):
    """The process that forks a guard for each group of a run.

    Args:
        environment: What the processes' own variables are added to; by default the runner's.
        held: A descriptor that it keeps open until the last process is gone: the lock of the run.
        umask: Of the processes; by default the runner's.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, held: int | None = None, umask: int = -1
    ) -> None:
        self._environment, self._held, self._umask = environment, held, umask
        self._silent: list[subprocess.Popen[bytes]] = []  # given up, but they may have guards
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
        """Connect to the guard of a new group; a dead supervisor is replaced."""
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
        """Start another one for further groups; this one stays, because its guards would end without it."""
        self._silent.append(self._process)
        self._control.close()
        self._spawn()

    def close(self) -> None:
        """Close the connection; the supervisor ends when every group has ended."""
        self._control.close()
        for process in (self._process, *self._silent):
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGCONT)
            try:
                process.wait(GRACE_SECONDS + MARGIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __exit__(self, *_: object) -> None:
        self.close()

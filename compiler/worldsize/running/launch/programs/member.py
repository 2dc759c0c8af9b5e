"""The parent of one rank that another launcher starts, such as ``mpirun``.

This file is a program of its own; it imports the standard library only. ``mpirun`` starts it once a rank
instead of the command. It gives the rank what the plan says, its own variables and its own log, and tells
the guard when the rank begins and how it ends, so that a failure is that of a rank and not of ``mpirun``.

``WORLDSIZE_MEMBERS`` holds the plan as JSON: ``reports`` (the guard's named pipe), ``rank`` (the variable
that has the rank) and ``members``, by rank ``index``, ``env`` and ``log``. The arguments are the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1  # linux/prctl.h
TICK_SECONDS = 0.5
ORPHAN_SECONDS = 8.0  # a rank whose launcher was killed; longer than the guard lets it live
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
DEFAULTS = (*HANDLED, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


def main() -> None:
    """Be the parent of one rank, and end as it ends."""
    table = json.loads(os.environ.pop("WORLDSIZE_MEMBERS"))
    member = table["members"][int(os.environ[table["rank"]])]
    received: list[int] = []
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Whoever signals this process signals its group, and so the rank: there is nothing to pass on.
    for number in HANDLED:
        signal.signal(number, lambda number, _: received.append(number))
    pid = os.fork()
    if pid == 0:
        become(member, sys.argv[1:])
    report(table["reports"], index=member["index"], pid=pid)
    status = await_end(pid, reading)
    report(table["reports"], index=member["index"], status=status, told=bool(received))
    if status >= 0:
        os._exit(status)
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    os._exit(128 - status)


def await_end(pid: int, reading: int) -> int:
    """The exit status of the rank, a signal as a negative number; without its launcher it is killed."""
    launcher = os.getppid()
    orphaned: float | None = None
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if orphaned is None and os.getppid() != launcher:
            orphaned = time.monotonic()
        if orphaned is not None and time.monotonic() - orphaned > ORPHAN_SECONDS:
            os.kill(pid, signal.SIGKILL)
        if select.select([reading], [], [], TICK_SECONDS)[0]:
            os.read(reading, 1 << 10)


def become(member: dict[str, Any], argv: list[str]) -> NoReturn:
    """Turn the forked child into the rank."""
    try:
        if sys.platform == "linux":
            import ctypes  # Linux only

            parent = os.getppid()
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # the parent died before the line above
                os._exit(128 + signal.SIGKILL)
        for number in DEFAULTS:
            signal.signal(number, signal.SIG_DFL)
        log = os.open(member["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execvpe(argv[0], argv, {**os.environ, **member["env"]})  # noqa: S606
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(2, f"cannot start `{argv[0]}`: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def report(pipe: str, **event: Any) -> None:
    """Tell the guard; a line is written in one piece. Without a guard everything ends anyway."""
    with contextlib.suppress(OSError):
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        os.write(descriptor, (json.dumps(event) + "\n").encode())
        os.close(descriptor)


if __name__ == "__main__":
    main()

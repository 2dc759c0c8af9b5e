"""The parent of one step's processes: starts them, says how each ends, and leaves none behind.

This file is a program of its own, started by :mod:`worldsize.running.supervise`; it imports the
standard library only and has one thread. A separate parent is what makes the promise hold:

- The kernel hands every orphan below it to it (``PR_SET_CHILD_SUBREAPER``), also one that opened a
  session of its own. So "no child left" means that no descendant is left.
- When the runner dies, even by SIGKILL, its end of the pipe closes and the group is stopped.
- When this process dies by SIGKILL, the kernel kills the ranks (``PR_SET_PDEATHSIG``). That signal is
  tied to the *thread* that forked, which rules out forking from a threaded runner.

Elsewhere than on Linux the ranks' process groups are all that can be found and stopped.

Protocol, one JSON document a line. In: the request (``processes``, ``cwd``, ``grace``), then ``"stop"``
or ``"kill"``; the end of the input means stop. Out: ``started`` (index, pid), ``ended`` (index,
status; a signal as a negative number), ``done`` (left: processes that could not be killed).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
TICK_SECONDS = 0.5  # how often the parent is looked after, should its pipe be kept open by somebody else
RETRY_SECONDS = 0.05
UNKILLABLE_SECONDS = 5.0  # after SIGKILL; only a process stuck in the kernel lasts so long


class Guard:
    """One group: its ranks by pid, and how far it is on its way to the end."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.runner = os.getppid()
        self.running: dict[int, int] = {}
        self.groups: list[int] = []
        self.stopping = False
        self.kill_at: float | None = None  # when TERM has had its time
        self.give_up_at: float | None = None

    def start(self) -> None:
        """Start every rank in a session of its own."""
        for index, process in enumerate(self.request["processes"]):
            pid = os.fork()
            if pid == 0:
                become(process, self.request["cwd"])
            self.running[pid] = index
            self.groups.append(pid)
            say(event="started", index=index, pid=pid)

    def reap(self) -> bool:
        """Collect what has ended; False once nothing is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not LINUX and any(self.group_alive(group) for group in self.groups)
            if pid == 0:
                return True
            index = self.running.pop(pid, None)
            if index is not None:
                code = os.waitstatus_to_exitcode(status)
                say(event="ended", index=index, status=code)
                if code != 0:
                    self.stop()

    def stop(self, *, grace: float | None = None) -> None:
        """First stage: ask everything to end, and give all of it one budget of time."""
        seconds = self.request["grace"] if grace is None else grace
        deadline = time.monotonic() + seconds
        self.kill_at = deadline if self.kill_at is None else min(self.kill_at, deadline)
        if not self.stopping:
            self.stopping = True
            if seconds > 0:
                self.signal(signal.SIGTERM)
                self.signal(signal.SIGCONT)  # a stopped process cannot end by itself

    def signal(self, number: int) -> None:
        """Signal every rank's group, and every descendant that has left its group."""
        living = dict(descendants(os.getpid())) if LINUX else {}
        groups = [group for group in self.groups if not LINUX or group in living.values()]
        for group in groups:
            quietly(os.killpg, group, number)
        for pid, group in living.items():
            if group not in groups:
                quietly(os.kill, pid, number)

    @staticmethod
    def group_alive(group: int) -> bool:
        """Whether a process group has members."""
        try:
            os.killpg(group, 0)
        except OSError:
            return False
        return True

    def step(self) -> bool:
        """Advance after something happened; False once the group is over."""
        if not self.reap():
            return False
        if not self.running and not self.stopping:
            # The command is over: as when a container ends, what it left in the background is killed.
            self.stop(grace=0.0)
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.signal(signal.SIGKILL)
            if self.give_up_at is None:
                self.give_up_at = time.monotonic() + UNKILLABLE_SECONDS
            return time.monotonic() < self.give_up_at
        return True

    def patience(self) -> float:
        """Seconds until there is something to do without being woken."""
        if self.kill_at is None:
            return TICK_SECONDS
        return min(TICK_SECONDS, max(RETRY_SECONDS, self.kill_at - time.monotonic()))


def become(process: dict[str, Any], cwd: str) -> NoReturn:
    """Turn the forked child into the rank."""
    try:
        os.setsid()
        if LINUX:
            parent = os.getppid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent died before the line above
                os._exit(128 + signal.SIGKILL)
        # Python ignores these two, and what is ignored stays so across exec; a shell pipe needs SIGPIPE.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        log = os.open(process["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(cwd)
        os.execvpe(process["argv"][0], process["argv"], {**os.environ, **process["env"]})  # noqa: S606
    except OSError as error:
        quietly(os.write, 2, f"cannot start `{process['argv'][0]}`: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def descendants(root: int) -> Iterator[tuple[int, int]]:
    """Pid and process group of every living process below one, from ``/proc``."""
    parents: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            state, parent, group = fields[0], int(fields[1]), int(fields[2])
            parents.setdefault(parent, []).append((int(name), 0 if state == "Z" else group))
    level = [root]
    while level:
        children = [child for pid in level for child in parents.get(pid, [])]
        yield from (child for child in children if child[1])
        level = [pid for pid, _ in children]


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; a kernel that lacks the option is no reason to fail."""
    import ctypes  # noqa: PLC0415 - Linux only

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def quietly(call: Any, *args: Any) -> None:
    """Call, and ignore that the process or the reader is gone already."""
    with contextlib.suppress(OSError):
        call(*args)


def say(**event: Any) -> None:
    """Report to the runner, should it still listen."""
    quietly(os.write, 1, (json.dumps(event) + "\n").encode())


class Input:
    """The runner's lines, read without blocking."""

    def __init__(self) -> None:
        self.pending = b""
        self.open = True

    def lines(self) -> list[str]:
        """What has arrived; the end of the input counts as ``"stop"``."""
        chunk = os.read(0, 1 << 16)
        self.open = bool(chunk)
        *lines, self.pending = (self.pending + chunk).split(b"\n")
        return [line.decode() for line in lines] + ([] if self.open else ['"stop"'])

    def first(self) -> str | None:
        """Wait for the request; None where the runner died before it was whole."""
        while self.open:
            lines = self.lines()
            if lines:
                return lines[0] if self.open else None
        return None


def attend(guard: Guard, source: Input, wake: int) -> None:
    """Wait until something happens and take what the runner says."""
    ready, _, _ = select.select([wake, *([0] if source.open else [])], [], [], guard.patience())
    if wake in ready:
        for number in os.read(wake, 1 << 12):
            if number == signal.SIGTERM:
                guard.stop()
    words = source.lines() if 0 in ready else []
    if os.getppid() != guard.runner:
        words.append('"stop"')
    for word in words:
        guard.stop(grace=0.0 if word == '"kill"' else None)


def main() -> None:
    """Serve one group from its request to its end."""
    if LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):  # the runner decides what a Ctrl-C means
        signal.signal(number, signal.SIG_IGN)
    source = Input()
    request = source.first()
    if request is None:
        return
    guard = Guard(json.loads(request))
    guard.start()
    while guard.step():
        attend(guard, source, reading)
    left = [pid for pid, _ in descendants(os.getpid())] if LINUX else []
    say(event="done", left=left)


if __name__ == "__main__":
    main()

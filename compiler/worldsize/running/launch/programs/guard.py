"""The parents of a run's processes: they start them, say how each ends, and leave none behind.

This file belongs to a program of its own (``supervisor.py``); it imports the standard library only and has
one thread. One *supervisor* serves a run; for each step it forks a *guard*, which is the parent of that
step's ranks. Parents of their own are what makes the promise hold:

- The kernel hands every orphan to the nearest of them (``PR_SET_CHILD_SUBREAPER``), also one that opened
  a session of its own. So for a guard "no child left" means that no descendant is left.
- When the runner dies, even by SIGKILL, its ends of the sockets close and everything is stopped.
- When a guard dies by SIGKILL, the kernel kills its ranks (``PR_SET_PDEATHSIG``), and what these had
  started falls to the supervisor. That signal is tied to the *thread* that forked, which rules out forking
  from a threaded runner. When the supervisor dies, the guards stop their groups.

Elsewhere than on Linux the ranks' groups are all that can be found and stopped. The ranks of a launcher such
as ``mpirun`` are started by it; their parents (``member.py``) report through a named pipe in ``folder``.

The runner sends the supervisor one socket a group. Protocol on it, one JSON document a line. In: the request
(``processes``, ``cwd``, ``grace``, ``folder``), then ``"stop"`` or ``"kill"``; the end of the input means
stop. Out: ``guarded`` (pid of the guard), ``started`` (index, pid), ``ended`` (index, status; a signal as a
negative number; told: whether it had been asked to end), ``alive`` every second, ``abandoned`` when the
supervisor has died, ``done`` (left: processes that could not be killed).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NoReturn

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
TICK_SECONDS = 0.5  # how often the parent is checked, in case another process keeps its socket open
RETRY_SECONDS = 0.05
REPORTS = "reports"  # the pipe's name
ALIVE_SECONDS, LAUNCHERS_SECONDS = 1.0, 3.0  # between signs of life; between looks at launchers
UNKILLABLE_SECONDS = 5.0  # after SIGKILL; only a process stuck in the kernel lasts so long


class Guard:
    """One group: its ranks by pid, and how far it is on its way to the end."""

    def __init__(self, request: dict[str, Any], line: Line) -> None:
        self.request = request
        self.line = line
        self.supervisor = os.getppid()
        self.running: dict[int, dict[str, Any]] = {}
        self.members: dict[int, int] = {}  # ranks of a launcher that have begun and not ended, by pid
        self.reports = Reports(request["folder"])
        self.groups: list[int] = []
        self.stopping = False
        self.asked = self.killed = False  # before this reaping; with SIGKILL
        self.alive_at = self.launchers_at = 0.0  # when to do so again
        self.kill_at: float | None = None  # when TERM has had its time
        self.give_up_at: float | None = None

    def start(self) -> None:
        """Start every rank in a session of its own."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # a child hears it in its own way, later
        for process in self.request["processes"]:
            pid = os.fork()
            if pid == 0:
                become(process, self.request["cwd"])
            self.running[pid] = process
            self.groups.append(pid)
            self.line.say(event="started", index=process["index"], pid=pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    def reap(self) -> bool:
        """Collect what has ended; False once nothing is left."""
        self.asked = self.stopping  # and not by what of this reaping fails first
        reports = self.reports.read()  # taken after: members that lost their launcher come after it
        alive = self.collect(reports)
        self.take(reports)
        return alive

    def collect(self, reports: list[dict[str, Any]]) -> bool:
        """Do so; first take the reports of members whose launcher had a reason to end: they know it."""
        gone, alive = [], True
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                gone.append((ended[0], os.waitstatus_to_exitcode(ended[1])))
        except ChildProcessError:
            alive = not LINUX and any(quietly(os.killpg, group, 0) for group in self.groups)
        for pid, code in gone:
            process = self.running.pop(pid, None)
            if process is not None and process["launches"] and code >= 0:
                reports += self.reports.read()
                self.take(reports)
            if process is not None:
                self.ended(process["index"], code)
            elif pid in self.members:  # it came here because its parent was killed, and killed it
                self.ended(self.members[pid], code)
        return alive

    def take(self, reports: list[dict[str, Any]]) -> None:
        """Pass on what members have said of themselves."""
        while reports:
            report = reports.pop(0)
            if "pid" in report:
                self.members[report["pid"]] = report["index"]
                self.line.say(event="started", **report)
            else:
                self.ended(report["index"], report["status"], told=report["told"])

    def ended(self, index: int, status: int, *, told: bool = False) -> None:
        """Pass on how a process has ended; the first that fails ends the others."""
        self.members = {pid: member for pid, member in self.members.items() if member != index}
        ours = self.asked and (status != -signal.SIGKILL or self.killed)  # else another program killed it
        self.line.say(event="ended", index=index, status=status, told=told or ours)
        if status != 0:
            self.stop()

    def stop(self, *, grace: float | None = None) -> None:
        """First stage: ask everything to end, and give all of it one budget of time."""
        seconds = self.request["grace"] if grace is None else grace
        deadline = time.monotonic() + seconds
        self.kill_at = deadline if self.kill_at is None else min(self.kill_at, deadline)
        if not self.stopping:
            self.stopping = True
            if seconds > 0:
                # A launcher that is told gives its ranks a second; without them it ends by itself.
                self.signal(signal.SIGTERM, launchers(self.members) if LINUX else ())
                self.signal(signal.SIGCONT)  # a stopped process cannot end by itself

    def signal(self, number: int, spare: Collection[int] = ()) -> None:
        """Signal every rank's group, and every descendant that has left its group; but not those to spare."""
        living = {pid: group for pid, group in descendants(os.getpid()) if pid not in spare} if LINUX else {}
        groups = [group for group in self.groups if group in living.values() or not LINUX]
        for group in groups:
            quietly(os.killpg, group, number)
        for pid, group in living.items():
            if group not in groups:
                quietly(os.kill, pid, number)

    def step(self) -> bool:
        """Advance after something happened; False once the group is over."""
        if not self.reap():
            return False
        if not self.running and not self.stopping:
            # The command is over: as when a container ends, what it left in the background is killed.
            self.stop(grace=0.0)
        elif not self.stopping and all(process["serves"] for process in self.running.values()):
            self.stop()
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.killed = True
            self.signal(signal.SIGKILL)
            self.give_up_at = self.give_up_at or time.monotonic() + UNKILLABLE_SECONDS
            return time.monotonic() < self.give_up_at
        return True

    def show_life(self) -> None:
        """Say that the guard works, unless the runner does not read; continue launchers that are stopped."""
        now = time.monotonic()
        if now >= self.alive_at and select.select([], [self.line.connection], [], 0)[1]:
            self.alive_at = now + ALIVE_SECONDS
            self.line.say(event="alive")
        launching = [pid for pid, process in self.running.items() if process["launches"]]
        if LINUX and launching and now >= self.launchers_at:
            self.launchers_at = now + LAUNCHERS_SECONDS
            started = {*launching, *launchers(self.members, parents=True)}
            for pid, _ in descendants(os.getpid()):
                if pid in started and is_stopped(pid):
                    quietly(os.kill, pid, signal.SIGCONT)

    def patience(self) -> float:
        """Seconds until there is something to do without being woken."""
        left = TICK_SECONDS if self.kill_at is None else self.kill_at - time.monotonic()
        return min(TICK_SECONDS, max(RETRY_SECONDS, left))


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
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        log = os.open(process["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(cwd)
        os.execvpe(process["argv"][0], process["argv"], {**os.environ, **process["env"]})  # noqa: S606
    except OSError as error:
        quietly(os.write, 2, f"cannot start `{process['argv'][0]}`: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def families() -> dict[int, list[tuple[int, int]]]:
    """By parent the pid and process group of its children, from ``/proc``; the group of a zombie is 0."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        with contextlib.suppress(OSError):
            if name.isdigit():
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    state, parent, group = file.read().rpartition(")")[2].split()[:3]
                children.setdefault(int(parent), []).append((int(name), 0 if state == "Z" else int(group)))
    return children


def descendants(root: int) -> Iterator[tuple[int, int]]:
    """Pid and process group of every living process below one."""
    parents = families()
    level = [root]
    while level:
        children = [child for pid in level for child in parents.get(pid, [])]
        yield from (child for child in children if child[1])
        level = [pid for pid, _ in children]


def launchers(members: Iterable[int], *, parents: bool = False) -> set[int]:
    """Whatever is above the parents of ranks: their launcher, and its daemons on other nodes."""
    above = {child: parent for parent, children in families().items() for child, _ in children}
    ancestors: set[int] = set()
    level = {above.get(pid, 0) for pid in members}
    level = level if parents else {above.get(pid, 0) for pid in level}
    while not level <= ancestors:
        ancestors |= level
        level = {above.get(pid, 0) for pid in level}
    return ancestors


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()[0] == b"T"
    return False


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; a kernel that lacks the option is not a reason to fail."""
    if LINUX:
        import ctypes  # Linux only

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def quietly(call: Any, *args: Any) -> bool:
    """Call, and do not mind that the process or the reader is gone already; whether it was there."""
    with contextlib.suppress(OSError):
        call(*args)
        return True
    return False


class Line:
    """A guard's side of the conversation with the runner."""

    def __init__(self, connection: int) -> None:
        self.connection = connection
        self.open = True
        self._pending = b""

    def say(self, **event: Any) -> None:
        """Report to the runner, should it still listen."""
        quietly(os.write, self.connection, (json.dumps(event) + "\n").encode())

    def hear(self) -> list[str]:
        """What has arrived (blocks where nothing has); the end of the input counts as ``"stop"``."""
        chunk = b""
        with contextlib.suppress(OSError):  # the runner was killed with answers unread
            chunk = os.read(self.connection, 1 << 16)
        self.open = bool(chunk)
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        return [line.decode() for line in lines] + ([] if self.open else ['"stop"'])

    def request(self) -> dict[str, Any] | None:
        """Wait for the request; None if the runner died before it was complete."""
        while self.open:
            lines = self.hear()
            if lines:
                return dict(json.loads(lines[0])) if self.open else None
        return None


class Reports:
    """The named pipe on which the parents of a launcher's ranks speak."""

    def __init__(self, folder: str | None) -> None:
        self.pipe: int | None = None
        self._pending = b""
        if folder is not None:
            with contextlib.suppress(OSError):  # held: the runner may die first
                fcntl.flock(os.open(f"{folder}/lock", os.O_RDONLY), fcntl.LOCK_SH)
            os.mkfifo(f"{folder}/{REPORTS}", 0o600)
            self.pipe = os.open(f"{folder}/{REPORTS}", os.O_RDWR | os.O_NONBLOCK)  # a writer: it never ends

    def read(self) -> list[dict[str, Any]]:
        """What has arrived."""
        with contextlib.suppress(BlockingIOError):
            self._pending += os.read(self.pipe, 1 << 16) if self.pipe is not None else b""
        *lines, self._pending = self._pending.split(b"\n")
        return [json.loads(line) for line in lines]


class Wake:
    """A pipe that a signal writes to, so that a select ends."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.writing, False)
        signal.set_wakeup_fd(self.writing, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP):  # the runner decides what a Ctrl-C means
            signal.signal(number, signal.SIG_IGN)


def serve_group(line: Line) -> None:
    """Be the guard of one group, from its request to its end."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake = Wake()
    line.say(event="guarded", pid=os.getpid())
    request = line.request()
    if request is None:
        return
    guard = Guard(request, line)
    guard.start()
    while guard.step():
        attend(guard, wake)
    if request["folder"]:  # the runner may be gone
        __import__("shutil").rmtree(request["folder"], ignore_errors=True)
    line.say(event="done", left=[pid for pid, _ in descendants(os.getpid())] if LINUX else [])


def attend(guard: Guard, wake: Wake) -> None:
    """Wait until something happens and take what the runner says."""
    line = guard.line
    pipes = [wake.reading, line.connection if line.open else None, guard.reports.pipe]
    ready, _, _ = select.select([pipe for pipe in pipes if pipe is not None], [], [], guard.patience())
    if wake.reading in ready and signal.SIGTERM in os.read(wake.reading, 1 << 12):
        guard.stop()
    words = line.hear() if line.connection in ready else []
    if os.getppid() != guard.supervisor:
        if not guard.stopping:
            line.say(event="abandoned")
        words.append('"stop"')
    guard.show_life()
    for word in words:
        guard.stop(grace=0.0 if word == '"kill"' else None)

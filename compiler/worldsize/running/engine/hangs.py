"""Detects ranks that no longer run, because a stopped process cannot report this itself.

The ranks of the built-in trainers write heartbeats (:mod:`wstrain.health.heartbeat`) and watch each other.
Only the runner can see that a process is stopped, or that all processes of a group are. A script without
heartbeats is limited by its ``limits: {timeout}`` only.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import Struct, field

from worldsize.running.engine.attempt import Attempt
from wstrain.health.heartbeat import HeartbeatRecord, Phase

LOOK_SECONDS = 1.0
SILENT_SECONDS = 5.0  # ten times the interval between heartbeats
MARGIN_SECONDS = 15.0  # beyond a rank's own limit, so that its own watchdog comes first
CERTAIN_SECONDS = 60.0
STACK_SECONDS = 10.0
_HALTED = ("T", "t", "Z")
_STATES = {
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
    "D": "waiting in the kernel",
    "Z": "dead",
    "R": "short of processor time",
    "S": "asleep",
}


class HangWatcher(Struct):
    """Reports silent ranks, and stops a group in which all ranks hang."""

    say: Callable[[str], None]  # tells the user
    _looked: float = 0.0
    _reported: set[tuple[str, int, int]] = field(default_factory=set)  # step, attempt and rank

    def tick(self, attempts: Collection[Attempt]) -> None:
        """Look at every attempt, once a second."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for attempt in attempts:
            if attempt.group is not None and attempt.began is not None and not attempt.stop_requested:
                self._look_at(attempt, attempt.read_heartbeats(), now)

    def _look_at(self, attempt: Attempt, heartbeats: Mapping[int, HeartbeatRecord], now: float) -> None:
        self._report_slow(attempt)
        silent = {rank for rank, beat in heartbeats.items() if is_silent(beat, now)}
        for rank in sorted(silent):
            key = (attempt.task.name, attempt.number, rank)
            if key not in self._reported and is_certain(heartbeats[rank], now):
                self._reported.add(key)
                self._report_silent(attempt, heartbeats[rank])
        late = [beat for beat in heartbeats.values() if is_late(beat, now)]
        if late and attempt.blame is None and attempt.group is not None and not attempt.group.done:
            attempt.blame = _describe_hang(heartbeats, silent, late, now)
            attempt.group.stop()

    def _report_slow(self, attempt: Attempt) -> None:
        newest = attempt.progress.newest
        if newest is None or newest.slow_rank is None or newest.slow_ratio is None:
            return
        key = (attempt.task.name, -1, int(newest.slow_rank))
        if key not in self._reported:
            self._reported.add(key)
            text = f"rank {newest.slow_rank:.0f} is {newest.slow_ratio:.1f} times as slow as the others"
            self.say(f"{attempt.task.name}: {text}")
            attempt.context.log.write("rank_slow", step=attempt.task.name, reason=text)

    def _report_silent(self, attempt: Attempt, beat: HeartbeatRecord) -> None:
        text = f"rank {beat.rank} does not run: it is {read_state(beat.pid)}, last seen {beat.description}"
        self.say(f"{attempt.task.name}: {text}")
        attempt.context.log.write("rank_silent", step=attempt.task.name, rank=beat.rank, reason=text)
        log = attempt.context.run.step(attempt.task.name).logs / f"rank-{beat.rank}.log"
        if log.exists():
            with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in [f"worldsize: {text}", *read_stack(beat.pid)]))


def is_silent(beat: HeartbeatRecord, now: float) -> bool:
    """Whether a rank that has not ended has written no heartbeat lately."""
    if beat.phase == Phase.OVER or now - beat.ticked_at < SILENT_SECONDS:
        return False
    return Path(f"/proc/{beat.pid}").exists() or not Path("/proc/self").exists()


def is_certain(beat: HeartbeatRecord, now: float) -> bool:
    """Whether a silent rank is stopped; one that holds Python's lock, as imports may, only seems so."""
    state = _read_status(beat.pid).get("State", "?")[:1]
    return state in _HALTED or now - beat.ticked_at > CERTAIN_SECONDS


def is_late(beat: HeartbeatRecord, now: float) -> bool:
    """Whether a rank has made no progress for longer than its own limit, and has not ended itself."""
    return beat.limit > 0 and now - beat.progressed_at > beat.limit + MARGIN_SECONDS and is_silent(beat, now)


def read_state(pid: int) -> str:
    """The state of a process, as the kernel reports it."""
    return _STATES.get(_read_status(pid).get("State", "?")[:1], "not heard of")


def read_stack(pid: int) -> list[str]:
    """The stack of a process by py-spy if that is installed, else what the kernel reports."""
    spy = shutil.which("py-spy")
    if spy is not None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [spy, "dump", "--nonblocking", "--pid", str(pid)],
                capture_output=True,
                text=True,
                timeout=STACK_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout.splitlines()
    fields = _read_status(pid)
    lines = [f"{name}: {fields[name]}" for name in ("State", "SigPnd", "VmRSS", "Threads") if name in fields]
    for name in ("wchan", "stack"):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/{name}").read_text(encoding="ascii", errors="replace").strip()
            lines += [f"{name}: {line}" for line in text.splitlines() if line not in ("", "0")]
    return lines


def _read_status(pid: int) -> dict[str, str]:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    return {}


def _describe_hang(
    heartbeats: Mapping[int, HeartbeatRecord],
    silent: Collection[int],
    late: Collection[HeartbeatRecord],
    now: float,
) -> str:
    seconds = now - min(beat.progressed_at for beat in late)
    if len(silent) == len(heartbeats):
        first = min(heartbeats.values(), key=lambda beat: beat.position)
        state = read_state(first.pid)
        return f"no rank runs any more: no progress for {seconds:.0f} s, rank {first.rank} is {state}"
    names = f"rank{'s' * (len(late) > 1)} {', '.join(map(str, sorted(beat.rank for beat in late)))}"
    first = min(late, key=lambda beat: beat.position)
    return f"{names} did not arrive: no progress for {seconds:.0f} s, last seen {first.description}"

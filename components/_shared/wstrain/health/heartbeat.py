"""Signs of life: one small record of each rank, which others can read while it cannot speak for itself.

A rank overwrites its record whenever it gets on, which costs a microsecond. With ``WORLDSIZE_HEARTBEATS`` the
records are files of one folder, mapped into memory: what was written last is there even if the process is
stopped or killed the moment after. Times are of the machine's monotonic clock, so only readers on the same
machine may compare them; :attr:`Beat.ticks` are for the others. A reader may meet a record between two
writes of its parts; it then sees the step before with the phase after, which is as good.

This module needs the standard library only; ``worldsize run`` reads the records too.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

VARIABLE = "WORLDSIZE_HEARTBEATS"  # the folder
RECENT = 100  # steps whose times are kept
_MAGIC = b"WSB1"
_WHO = struct.Struct("<4siii")  # magic, rank, world size, pid
_MOVED = struct.Struct("<iiqd")  # phase, micro-batch, steps done, time
_TICKED = struct.Struct("<Qddi")  # ticks, time, limit in seconds, whether it gave the group up
_SIZE = _WHO.size + _MOVED.size + _TICKED.size
_NAME = re.compile(r"rank-(\d+)\.beat")


class Phase(IntEnum):
    """What a rank is busy with, in the order in which a training, and within it a step, goes on."""

    LOADING = 0
    COMPUTING = 1
    EXCHANGING = 2
    UPDATING = 3
    REPORTING = 4
    SAVING = 5
    EXPORTING = 6
    SERVING = 7
    OVER = 8


STEADY = frozenset({Phase.COMPUTING, Phase.EXCHANGING, Phase.UPDATING, Phase.REPORTING})
_WORDS = {
    Phase.LOADING: "loading data and model",
    Phase.COMPUTING: "computing micro-batch {micro} of step {step}",
    Phase.EXCHANGING: "waiting in the gradient exchange of step {step}",
    Phase.UPDATING: "updating the weights in step {step}",
    Phase.REPORTING: "averaging the losses after step {step}",
    Phase.SAVING: "saving a checkpoint after step {step}",
    Phase.EXPORTING: "saving the trained model",
    Phase.SERVING: "serving the others",
    Phase.OVER: "done",
}


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """What a record says.

    Attributes:
        rank: whose it is.
        world_size: ranks there are.
        pid: of the process, in its own name space.
        phase: what it was busy with.
        micro: the micro-batch of this step, from 0.
        done: optimizer steps finished; -1 before the first is begun.
        progressed_at: when it got on last, monotonic.
        ticks: how often its watchdog has looked.
        ticked_at: when that was last, monotonic.
        limit: seconds without getting on that it allows itself now; 0 for any.
        gave_up: whether it has found that the group hangs.
    """

    rank: int
    world_size: int
    pid: int
    phase: Phase
    micro: int
    done: int
    progressed_at: float
    ticks: int
    ticked_at: float
    limit: float
    gave_up: bool

    @property
    def position(self) -> tuple[int, int, int]:
        """How far it has come; of two ranks the one with less is behind."""
        return (self.done, int(self.phase), self.micro)

    @property
    def words(self) -> str:
        """What it is doing, such as ``waiting in the gradient exchange of step 7``."""
        return _WORDS[self.phase].format(micro=self.micro + 1, step=self.done + 1)


class Heartbeat:
    """This rank's record. The training marks how it gets on, the watchdog that the process runs.

    Args:
        rank: of this process.
        world_size: ranks there are.
        folder: where records are kept; None keeps it in this process.
    """

    def __init__(self, rank: int, world_size: int, folder: str | None = None) -> None:
        self.phase, self.micro, self.done = Phase.LOADING, 0, -1
        self.progressed_at = time.monotonic()
        self.recent: deque[float] = deque(maxlen=RECENT)  # seconds of each step
        self.compute_seconds, self.compute_steps = 0.0, 0  # before the exchange, since the recorder took them
        self.micro_batches = 1
        self.on_step_begin: Callable[[], None] | None = None  # called when a step begins
        self._ticks = 0
        self._begun = self.progressed_at
        self._record = _mapped(folder, rank)
        _WHO.pack_into(self._record, 0, _MAGIC, rank, world_size, os.getpid())
        self.mark(Phase.LOADING)
        self.tick(0.0)

    @property
    def record(self) -> bytes:
        """The record as others read it."""
        return bytes(self._record[:_SIZE])

    def mark(self, phase: Phase, micro: int = 0) -> None:
        """Note what this rank does from now on."""
        self.phase, self.micro = phase, micro
        self.progressed_at = now = time.monotonic()
        _MOVED.pack_into(self._record, _WHO.size, phase, micro, self.done, now)

    def note_start(self, done: int, micro_batches: int = 1) -> None:
        """Note that steps begin, after ``done`` of them."""
        self.done, self.micro_batches = done, micro_batches
        self.mark(Phase.COMPUTING)
        self._begun = self.progressed_at

    def note_gradients(self, *_: object) -> None:
        """Note that this rank has its gradients; after the last micro-batch's it waits for the others'."""
        if self.micro == self.micro_batches - 1 and self.phase == Phase.COMPUTING:
            self.mark(Phase.EXCHANGING, self.micro)
            self.compute_seconds += self.progressed_at - self._begun
            self.compute_steps += 1

    def note_step(self, done: int) -> None:
        """Note that a step is done, with all that follows from it."""
        begun = self._begun
        self.done = done
        self.mark(Phase.COMPUTING)
        self._begun = self.progressed_at
        self.recent.append(self.progressed_at - begun)
        if self.on_step_begin is not None:
            self.on_step_begin()

    def take_compute_seconds(self) -> float:
        """Mean seconds that a step took before the exchange, since the last call; 0 where nobody measures."""
        seconds, steps = self.compute_seconds, self.compute_steps
        self.compute_seconds, self.compute_steps = 0.0, 0
        return seconds / steps if steps else 0.0

    def tick(self, limit: float, *, gave_up: bool = False) -> None:
        """Note that the process runs; called from another thread."""
        self._ticks += 1
        place = _WHO.size + _MOVED.size
        _TICKED.pack_into(self._record, place, self._ticks, time.monotonic(), limit, gave_up)


def parse_record(record: bytes) -> HeartbeatRecord | None:
    """What a record says; None for something else."""
    if len(record) < _SIZE or not record.startswith(_MAGIC):
        return None
    _, rank, world_size, pid = _WHO.unpack_from(record, 0)
    phase, micro, done, progressed_at = _MOVED.unpack_from(record, _WHO.size)
    ticks, ticked_at, limit, gave_up = _TICKED.unpack_from(record, _WHO.size + _MOVED.size)
    if phase not in Phase._value2member_map_:
        return None
    told = (ticks, ticked_at, limit, bool(gave_up))
    return HeartbeatRecord(rank, world_size, pid, Phase(phase), micro, done, progressed_at, *told)


def read_records(folder: str | os.PathLike[str]) -> dict[int, HeartbeatRecord]:
    """The records of a folder, by rank."""
    try:
        paths = sorted(path for path in Path(folder).iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return {}
    return {beat.rank: beat for beat in _parsed(paths)}


def _parsed(paths: Iterable[Path]) -> Iterable[HeartbeatRecord]:
    for path in paths:
        with contextlib.suppress(OSError):
            beat = parse_record(path.read_bytes())
            if beat is not None:
                yield beat


def _mapped(folder: str | None, rank: int) -> mmap.mmap | bytearray:
    """A place for the record: a file of the folder, or memory of our own where it cannot be made."""
    if folder:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with (Path(folder) / f"rank-{rank}.beat").open("w+b") as file:
                file.truncate(_SIZE)
                return mmap.mmap(file.fileno(), _SIZE)
        except (OSError, ValueError):
            pass  # a watch that cannot be kept must not end a training
    return bytearray(_SIZE)

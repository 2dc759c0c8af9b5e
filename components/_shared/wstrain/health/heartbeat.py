"""Heartbeats: one small record for each rank, which others can read even while the rank hangs.

A rank overwrites its record whenever it makes progress, which takes a microsecond. With
``WORLDSIZE_HEARTBEATS`` the records are files in one folder, mapped into memory, so the last write survives a
process that is stopped or killed. Times come from the machine's monotonic clock and can be compared on that
machine only; elsewhere compare :attr:`HeartbeatRecord.ticks`. A reader may see a record between two writes:
then the step is still the old one, which does no harm.

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

VARIABLE = "WORLDSIZE_HEARTBEATS"  # names the folder
RECENT_STEPS = 100  # whose times are kept
_MAGIC = b"WSB1"
_IDENTITY = struct.Struct("<4siii")  # magic, rank, world size, pid
_PROGRESS = struct.Struct("<iiqd")  # phase, micro-batch, steps done, time
_TICK = struct.Struct("<Qddi")  # ticks, time, limit in seconds, whether it gave up on the group
_SIZE = _IDENTITY.size + _PROGRESS.size + _TICK.size
_NAME = re.compile(r"rank-(\d+)\.beat")


class Phase(IntEnum):
    """What a rank is doing, in the order of a training and, within it, of a step."""

    LOADING = 0
    COMPUTING = 1
    EXCHANGING = 2
    UPDATING = 3
    REPORTING = 4
    VALIDATING = 5
    SAVING = 6
    EXPORTING = 7
    SERVING = 8
    OVER = 9


STEADY_PHASES = frozenset({Phase.COMPUTING, Phase.EXCHANGING, Phase.UPDATING, Phase.REPORTING})
_DESCRIPTIONS = {
    Phase.LOADING: "loading data and model",
    Phase.COMPUTING: "computing micro-batch {micro} of step {step}",
    Phase.EXCHANGING: "waiting in the gradient exchange of step {step}",
    Phase.UPDATING: "updating the weights in step {step}",
    Phase.REPORTING: "averaging the losses after step {step}",
    Phase.VALIDATING: "validating block {micro} after step {step}",
    Phase.SAVING: "saving a checkpoint after step {step}",
    Phase.EXPORTING: "saving the trained model",
    Phase.SERVING: "serving the others",
    Phase.OVER: "done",
}


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """The content of one rank's record.

    Attributes:
        rank: the rank that wrote it.
        world_size: number of ranks.
        pid: process id, in the name space of the process.
        phase: what the rank was doing.
        micro: micro-batch within the step, from 0.
        done: finished optimizer steps; -1 before the first one begins.
        progressed_at: when the rank last made progress, on the monotonic clock.
        ticks: how often its watchdog has run.
        ticked_at: when the watchdog last ran, on the monotonic clock.
        limit: seconds without progress that count as a hang; 0 for no limit.
        gave_up: whether the rank has decided that the group hangs.
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
        """How far the rank is; of two ranks the one with the smaller position is behind."""
        return (self.done, int(self.phase), self.micro)

    @property
    def description(self) -> str:
        """What the rank is doing, such as ``waiting in the gradient exchange of step 7``."""
        return _DESCRIPTIONS[self.phase].format(micro=self.micro + 1, step=self.done + 1)


class Heartbeat:
    """This rank's record: the training marks its progress, the watchdog that the process runs.

    Args:
        rank: this process.
        world_size: number of ranks.
        folder: where the records are; None keeps this one in the memory of the process.
    """

    def __init__(self, rank: int, world_size: int, folder: str | None = None) -> None:
        self.phase, self.micro, self.done = Phase.LOADING, 0, -1
        self.progressed_at = time.monotonic()
        self.recent: deque[float] = deque(maxlen=RECENT_STEPS)  # seconds of each step
        self.compute_seconds, self.compute_steps = 0.0, 0  # since the recorder last took them
        self.micro_batches = 1
        self.on_step_begin: Callable[[], None] | None = None
        self._ticks = 0
        self._begun = self.progressed_at
        self._record = _map_record(folder, rank)
        _IDENTITY.pack_into(self._record, 0, _MAGIC, rank, world_size, os.getpid())
        self.mark(Phase.LOADING)
        self.tick(0.0)

    @property
    def record(self) -> bytes:
        """The bytes that others read."""
        return bytes(self._record[:_SIZE])

    def mark(self, phase: Phase, micro: int = 0) -> None:
        """Note that this rank enters a phase."""
        self.phase, self.micro = phase, micro
        self.progressed_at = now = time.monotonic()
        _PROGRESS.pack_into(self._record, _IDENTITY.size, phase, micro, self.done, now)

    def note_start(self, done: int, micro_batches: int = 1) -> None:
        """Note that training begins after ``done`` steps."""
        self.done, self.micro_batches = done, micro_batches
        self.mark(Phase.COMPUTING)
        self._begun = self.progressed_at

    def note_gradients(self, *_: object) -> None:
        """Note that a backward pass has ended; after the last one of a step the rank waits for the others."""
        if self.micro == self.micro_batches - 1 and self.phase == Phase.COMPUTING:
            self.mark(Phase.EXCHANGING, self.micro)
            self.compute_seconds += self.progressed_at - self._begun
            self.compute_steps += 1

    def note_step(self, done: int) -> None:
        """Note that step ``done`` has ended and the next one begins."""
        begun = self._begun
        self.done = done
        self.mark(Phase.COMPUTING)
        self._begun = self.progressed_at
        self.recent.append(self.progressed_at - begun)
        if self.on_step_begin is not None:
            self.on_step_begin()

    def exclude(self, seconds: float) -> None:
        """Leave time out of the step that is under way, as no later step will take it."""
        self._begun += seconds

    def take_compute_seconds(self) -> float:
        """Return the mean seconds that a step computed since the last call; 0 where that is not measured."""
        seconds, steps = self.compute_seconds, self.compute_steps
        self.compute_seconds, self.compute_steps = 0.0, 0
        return seconds / steps if steps else 0.0

    def tick(self, limit: float, *, gave_up: bool = False) -> None:
        """Note that the process runs; called by the watchdog's thread."""
        self._ticks += 1
        offset = _IDENTITY.size + _PROGRESS.size
        _TICK.pack_into(self._record, offset, self._ticks, time.monotonic(), limit, gave_up)


def parse_record(record: bytes) -> HeartbeatRecord | None:
    """Decode a record; None if the bytes are not one."""
    if len(record) < _SIZE or not record.startswith(_MAGIC):
        return None
    _, rank, world_size, pid = _IDENTITY.unpack_from(record, 0)
    phase, micro, done, progressed_at = _PROGRESS.unpack_from(record, _IDENTITY.size)
    ticks, ticked_at, limit, gave_up = _TICK.unpack_from(record, _IDENTITY.size + _PROGRESS.size)
    if phase not in Phase._value2member_map_:
        return None
    tick = (ticks, ticked_at, limit, bool(gave_up))
    return HeartbeatRecord(rank, world_size, pid, Phase(phase), micro, done, progressed_at, *tick)


def read_records(folder: str | os.PathLike[str]) -> dict[int, HeartbeatRecord]:
    """Read the records in a folder, by rank."""
    try:
        paths = sorted(path for path in Path(folder).iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return {}
    return {beat.rank: beat for beat in _parse_files(paths)}


def _parse_files(paths: Iterable[Path]) -> Iterable[HeartbeatRecord]:
    for path in paths:
        with contextlib.suppress(OSError):
            beat = parse_record(path.read_bytes())
            if beat is not None:
                yield beat


def _map_record(folder: str | None, rank: int) -> mmap.mmap | bytearray:
    """Map a file in the folder; plain memory where the file cannot be made."""
    if folder:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with (Path(folder) / f"rank-{rank}.beat").open("w+b") as file:
                file.truncate(_SIZE)
                return mmap.mmap(file.fileno(), _SIZE)
        except (OSError, ValueError):
            pass  # a heartbeat that cannot be written must not end a training
    return bytearray(_SIZE)

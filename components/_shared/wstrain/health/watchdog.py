"""Ends a group of ranks that hangs, and names the rank that did not arrive.

In every rank a thread checks when the rank last made progress. If that is longer ago than its step times
explain, the thread writes to the rank's log the stacks of all threads, what every rank was doing and which
ranks are behind, and ends the process with :data:`HANG_EXIT_STATUS`. A stopped rank cannot do so; the others
name it.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from wstrain.health.heartbeat import STEADY_PHASES, VARIABLE, Heartbeat, HeartbeatRecord, Phase, parse_record
from wstrain.health.peer_heartbeats import STORE_SECONDS, FolderPeers, OwnRecord, Peers, StorePeers
from wstrain.launch.environment import Launch

HANG_EXIT_STATUS = 124  # as timeout(1) has it
MIN_SECONDS = 60.0  # a shorter pause is never a hang
SLOWEST_STEPS = 10.0  # nor is one shorter than this many of the slowest steps
OTHER_SECONDS = 1800.0  # for loading, the first step and saving, as gloo itself waits
OTHER_FACTOR = 10.0  # times the user's limit, for these
TICK_SECONDS = 0.5
GATHER_SECONDS = 3.0  # between giving up and exit, in which the other ranks write their stacks
_MAX_RANKS_SHOWN = 64


class Watchdog:
    """Watches this rank in a separate thread.

    Args:
        heartbeat: this rank's record.
        peers: gives the records of the other ranks.
        world_size: number of ranks.
        timeout: seconds without a finished step that count as a hang; 0 derives them from the step times.
    """

    def __init__(self, heartbeat: Heartbeat, peers: Peers, world_size: int, timeout: float = 0.0) -> None:
        self._heartbeat, self._peers, self._world_size, self._timeout = heartbeat, peers, world_size, timeout
        self._closed = threading.Event()
        self._started = self._woken = time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching, as this rank is done."""
        self._heartbeat.mark(Phase.OVER)
        self._closed.set()
        self._thread.join(TICK_SECONDS * 4)
        self._heartbeat.tick(0.0)

    def _watch(self) -> None:
        last_look, last_publish, slept = time.monotonic(), 0.0, 0.0
        while not self._closed.wait(TICK_SECONDS):
            now = time.monotonic()
            if now - last_look > TICK_SECONDS * 6:
                self._woken, slept = now, now - last_look  # this process paused; the others do not hang
            last_look = now
            limit = allowed_seconds(self._heartbeat.phase, self._heartbeat.recent, self._timeout)
            self._heartbeat.tick(limit)
            if limit:
                # From C, in case the main thread holds Python's lock and this thread cannot run.
                faulthandler.dump_traceback_later(limit + 2 * GATHER_SECONDS, exit=False)
            if now - last_publish >= STORE_SECONDS:
                last_publish = now
                self._peers.publish(self._heartbeat)
            hangs = limit and now - max(self._heartbeat.progressed_at, self._woken) > limit
            if hangs or (self._peers.shared and any(map(self._gave_up, self._peers.read().values()))):
                self._give_up(limit, slept if now - self._woken < GATHER_SECONDS else 0.0)
        faulthandler.cancel_dump_traceback_later()

    def _gave_up(self, beat: HeartbeatRecord) -> bool:
        return beat.gave_up and beat.ticked_at > self._started  # in this training, not in an earlier one

    def _give_up(self, limit: float, slept: float) -> None:
        faulthandler.cancel_dump_traceback_later()
        begun = time.monotonic()
        self._heartbeat.tick(limit, gave_up=True)
        sys.stdout.flush()
        print(f"the stacks of this process, which found that the group hangs:\n{'-' * 60}", file=sys.stderr)
        faulthandler.dump_traceback(all_threads=True)
        if slept:
            print(f"error: this process did not run for {slept:.0f} s, and was given up", file=sys.stderr)
            sys.stderr.flush()
            os._exit(HANG_EXIT_STATUS)
        before = self._read()
        time.sleep(TICK_SECONDS * 4)
        after = self._read()
        # Records from a store are up to one period old even if their rank runs.
        silent = _silent(before, after) if self._peers.shared else set()
        own_record = parse_record(self._heartbeat.record)
        if own_record is not None:
            after.setdefault(own_record.rank, own_record)
        for line in describe_hang(after, silent, self._world_size, own_record):
            print(line, file=sys.stderr)
        sys.stderr.flush()
        time.sleep(max(0.0, begun + GATHER_SECONDS - time.monotonic()))
        # The main thread hangs, so nothing gentler ends the process.
        os._exit(HANG_EXIT_STATUS)

    def _read(self) -> dict[int, HeartbeatRecord]:
        """Read the peers' records in a thread that may be left behind, as a store may never answer."""
        records: dict[int, HeartbeatRecord] = {}
        reader = threading.Thread(target=self._peers.read, args=(records,), daemon=True)
        reader.start()
        reader.join(STORE_SECONDS + 1)
        return dict(records)


def start_watchdog(launch: Launch, timeout: float, *, communication: str = "") -> tuple[Heartbeat, Watchdog]:
    """Begin to watch this process.

    Args:
        launch: which process this is.
        timeout: see :class:`Watchdog`.
        communication: full name of the module that connects the ranks.
    """
    folder = os.environ.get(VARIABLE)
    heartbeat = Heartbeat(launch.rank, launch.world_size, folder)
    peers: Peers = OwnRecord(heartbeat)
    if folder:
        peers = FolderPeers(folder)
    elif communication.endswith(".torch_distributed") and launch.world_size > 1:
        peers = StorePeers(launch)
    return heartbeat, Watchdog(heartbeat, peers, launch.world_size, timeout)


@contextmanager
def watch_process(launch: Launch, timeout: float, *, communication: str = "") -> Iterator[Heartbeat]:
    """Watch this process for as long as the context lasts; see :func:`start_watchdog`."""
    heartbeat, watchdog = start_watchdog(launch, timeout, communication=communication)
    try:
        yield heartbeat
    finally:
        watchdog.close()


def allowed_seconds(phase: Phase, recent: Iterable[float], timeout: float = 0.0) -> float:
    """Return how many seconds a rank may take without progress; 0 for no limit.

    Args:
        phase: what the rank is doing.
        recent: seconds of its last steps; empty before the first one, in which code is compiled.
        timeout: the user's limit for a step, or 0.
    """
    if phase in (Phase.SERVING, Phase.OVER):
        return 0.0
    slowest = max([*recent], default=None)
    if phase in STEADY_PHASES and slowest is not None:
        return timeout or max(MIN_SECONDS, SLOWEST_STEPS * slowest)
    return timeout * OTHER_FACTOR or max(OTHER_SECONDS, SLOWEST_STEPS * (slowest or 0.0))


def find_absent_ranks(
    records: Mapping[int, HeartbeatRecord], silent: Collection[int], world_size: int
) -> list[int]:
    """Return the ranks that the others wait for; empty where that cannot be determined.

    Args:
        records: the records there are.
        silent: ranks whose process does not run.
        world_size: ranks there should be.
    """
    if silent:
        return sorted(silent)
    if len(records) == 1 < world_size:
        return []  # only its own: it cannot tell
    missing = [rank for rank in range(world_size) if rank not in records]
    if missing:
        return missing
    least = min(beat.position for beat in records.values())
    behind = [rank for rank, beat in sorted(records.items()) if beat.position == least]
    return behind if len(behind) < world_size else []


def describe_hang(
    records: Mapping[int, HeartbeatRecord],
    silent: Collection[int],
    world_size: int,
    own_record: HeartbeatRecord | None,
) -> Iterator[str]:
    """Yield the lines about a hang: what every rank was doing, then one ``error: …`` and one ``help: …``."""
    now = time.monotonic()
    yield "-" * 60
    for rank, beat in sorted(records.items())[:_MAX_RANKS_SHOWN]:
        steps = f"{max(beat.done, 0)} steps done, " if beat.phase != Phase.LOADING else ""
        waited = "; its process does not run" if rank in silent else ""
        yield f"rank {rank}: {steps}{beat.description}{waited}"
    seconds = now - own_record.progressed_at if own_record else 0.0
    gone = find_absent_ranks(records, silent, world_size)
    if gone:
        named = f"rank{'s' * (len(gone) > 1)} {', '.join(map(str, gone[:8]))}{' …' * (len(gone) > 8)}"
        first = records.get(gone[0])
        doing = f", last seen {first.description}" if first else ", of which nothing is known"
        stopped = "; its process does not run" if set(gone) <= set(silent) else ""
        yield f"error: {named} did not arrive: no progress for {seconds:.0f} s{doing}{stopped}"
        limit = _describe_limit(own_record)
        yield f"help: each rank's log has its stacks; `hang_timeout` is how long the others wait, {limit}"
    else:
        doing = f" while {own_record.description}" if own_record else ""
        yield f"error: the ranks wait for each other: no progress for {seconds:.0f} s{doing}"
        limit = _describe_limit(own_record)
        yield f"help: compare the stacks in their logs; `hang_timeout` is how long they wait, {limit}"


def _describe_limit(own_record: HeartbeatRecord | None) -> str:
    return f"{own_record.limit:.0f} s here" if own_record else "0 to derive it"


def _silent(before: Mapping[int, HeartbeatRecord], after: Mapping[int, HeartbeatRecord]) -> set[int]:
    """Return the ranks whose watchdog did not run between two readings although they had not ended."""
    return {
        rank
        for rank, beat in after.items()
        if rank in before
        and beat.ticks == before[rank].ticks
        and beat.phase != Phase.OVER
        and not beat.gave_up
    }

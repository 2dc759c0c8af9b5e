"""How a rank reads the heartbeats of the others while the group hangs, without an answer from them.

In ``worldsize run`` all ranks are on one machine and their records in one folder. In a cluster,
``torch.distributed`` has a store: every watchdog publishes its rank's record there over its own connection,
and reads the others' only when the group hangs. Horovod and TensorFlow have no such store, so a rank knows
only its own record.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

from wstrain.health.heartbeat import Heartbeat, HeartbeatRecord, parse_record, read_records
from wstrain.launch.environment import Launch

STORE_SECONDS = 5.0  # between two records in the store, and the time-out of a request


class Peers(Protocol):
    """Where the records of the ranks are."""

    shared: bool
    """Whether reading is cheap enough for every tick."""

    def publish(self, heartbeat: Heartbeat) -> None:
        """Make this rank's record visible to the others."""

    def read(self, records: dict[int, HeartbeatRecord] | None = None) -> dict[int, HeartbeatRecord]:
        """Read the records, by rank, and add them one by one to ``records``."""


class OwnRecord:
    """Only this rank's own record."""

    shared = False

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat

    def publish(self, heartbeat: Heartbeat) -> None:
        """Do nothing, as no other rank reads it."""

    def read(self, records: dict[int, HeartbeatRecord] | None = None) -> dict[int, HeartbeatRecord]:
        """Return this rank's record."""
        records = {} if records is None else records
        record = parse_record(self._heartbeat.record)
        if record is not None:
            records[record.rank] = record
        return records


class FolderPeers:
    """Records in files on one machine."""

    shared = True

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def publish(self, heartbeat: Heartbeat) -> None:
        """Do nothing, as the file is the record."""

    def read(self, records: dict[int, HeartbeatRecord] | None = None) -> dict[int, HeartbeatRecord]:
        """Read all files of the folder."""
        records = {} if records is None else records
        records.update(read_records(self._folder))
        return records


class StorePeers:
    """Records in the store of ``torch.distributed``, which listens in the process of rank 0.

    Args:
        launch: which process this is; its ``master`` is where the store listens.
    """

    shared = False

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._store: Any = None

    def publish(self, heartbeat: Heartbeat) -> None:
        """Store this rank's record; if the store has gone, the group is about to end anyway."""
        try:
            self._connected().set(_key(self._launch.rank), heartbeat.record)
        except RuntimeError:
            self._store = None

    def read(self, records: dict[int, HeartbeatRecord] | None = None) -> dict[int, HeartbeatRecord]:
        """Read what the store has; may block if the store does not answer."""
        records = {} if records is None else records
        for rank in range(self._launch.world_size):
            try:
                store = self._connected()
                beat = parse_record(bytes(store.get(_key(rank)))) if store.check([_key(rank)]) else None
            except RuntimeError:  # as torch.distributed raises it
                self._store = None
                break
            if beat is not None:
                records[rank] = beat
        return records

    def _connected(self) -> Any:
        import torch.distributed as dist  # the other ways do without torch

        if self._store is None:
            host, _, port = (self._launch.master or "").rpartition(":")
            self._store = dist.TCPStore(  # type: ignore[attr-defined]
                host,
                int(port),
                is_master=False,
                wait_for_workers=False,
                timeout=timedelta(seconds=STORE_SECONDS),
            )
        return self._store


def _key(rank: int) -> str:
    return f"worldsize/beat/{rank}"

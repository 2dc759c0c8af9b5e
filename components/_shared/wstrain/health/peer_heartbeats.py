"""How a rank hears of the others while it hangs: by what none of them has to answer.

In ``worldsize run`` all are on one machine and their records in one folder. In a cluster,
``torch.distributed`` has a store that the ranks met through; every watchdog leaves its rank's record there
over a connection of its own, and reads the others' only when it has to. Horovod and TensorFlow have nothing
of the kind: a rank then speaks of itself only.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

from wstrain.health.heartbeat import Heartbeat, HeartbeatRecord, parse_record, read_records
from wstrain.launch.environment import Launch

STORE_SECONDS = 5.0  # between two records in the store, and as long as its answer may take


class Peers(Protocol):
    """Where the records of all ranks are."""

    shared: bool
    """Whether reading is so cheap that a rank may look at every tick."""

    def tell(self, heartbeat: Heartbeat) -> None:
        """Show this rank's record to the others."""

    def read(self, records: dict[int, HeartbeatRecord] | None = None) -> dict[int, HeartbeatRecord]:
        """The records that can be read, by rank; put into ``records`` one by one."""


class OwnRecord:
    """Only this rank's own record."""

    shared = False

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._pulse = heartbeat

    def tell(self, heartbeat: Heartbeat) -> None:
        """Nobody to tell."""

    def read(self, records: dict[int, HeartbeatRecord] | None = None) -> dict[int, HeartbeatRecord]:
        """This rank's."""
        records = {} if records is None else records
        own = parse_record(self._pulse.record)
        if own is not None:
            records[own.rank] = own
        return records


class FolderPeers:
    """Records in files of one machine."""

    shared = True

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def tell(self, heartbeat: Heartbeat) -> None:
        """Nothing to do: the file is the record."""

    def read(self, records: dict[int, HeartbeatRecord] | None = None) -> dict[int, HeartbeatRecord]:
        """All of the folder."""
        records = {} if records is None else records
        records.update(read_records(self._folder))
        return records


class StorePeers:
    """Records in the store of ``torch.distributed``, which listens in the process of rank 0.

    Args:
        launch: who this process is; its ``master`` is where the store listens.
    """

    shared = False

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._store: Any = None

    def tell(self, heartbeat: Heartbeat) -> None:
        """Leave this rank's record; where the store has gone, the group is about to end anyway."""
        try:
            self._connected().set(_key(self._launch.rank), heartbeat.record)
        except RuntimeError:
            self._store = None

    def read(self, records: dict[int, HeartbeatRecord] | None = None) -> dict[int, HeartbeatRecord]:
        """All that the store has; a store that does not answer has nothing, or never returns."""
        records = {} if records is None else records
        for rank in range(self._launch.world_size):
            try:
                store = self._connected()
                beat = parse_record(bytes(store.get(_key(rank)))) if store.check([_key(rank)]) else None
            except RuntimeError:  # torch.distributed's errors are such
                self._store = None
                break
            if beat is not None:
                records[rank] = beat
        return records

    def _connected(self) -> Any:
        import torch.distributed as dist  # noqa: PLC0415  the other ways do without torch

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

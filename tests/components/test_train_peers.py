"""In a cluster, ranks find each other's records in the store that torch.distributed met through."""

from __future__ import annotations

import socket
import time
from datetime import timedelta

import pytest

from wstrain.beats import Phase, Pulse
from wstrain.launch import Launch
from wstrain.peers import Store

pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(100)]


def test_records_are_left_in_the_store_and_read_from_it() -> None:
    import torch.distributed as dist

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = dist.TCPStore("127.0.0.1", port, is_master=True, timeout=timedelta(seconds=20))
    master = f"127.0.0.1:{port}"
    stores = [Store(Launch(rank, rank, 3, master=master)) for rank in range(2)]
    for rank, store in enumerate(stores):
        pulse = Pulse(rank, 3)
        pulse.begin(7 + rank)
        pulse.mark(Phase.EXCHANGING)
        store.tell(pulse)
    began = time.monotonic()
    found = stores[0].read()
    assert {rank: beat.done for rank, beat in found.items()} == {0: 7, 1: 8}
    assert found[0].phase == Phase.EXCHANGING
    assert time.monotonic() - began < 5  # rank 2 has left nothing, and is not waited for
    del server
    assert Store(Launch(0, 0, 1, master="127.0.0.1:9")).read() == {}

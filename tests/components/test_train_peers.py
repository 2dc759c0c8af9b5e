"""The store that torch.distributed meets through: who listens where, and what ranks leave in it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from ports import find_free_port

from wsshards.errors import UserError
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.health.peer_heartbeats import StorePeers
from wstrain.launch.environment import Launch

pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(100)]


def test_records_are_left_in_the_store_and_read_from_it() -> None:
    import torch.distributed as dist

    port = find_free_port()
    server = dist.TCPStore("127.0.0.1", port, is_master=True, timeout=timedelta(seconds=20))
    master = f"127.0.0.1:{port}"
    stores = [StorePeers(Launch(rank, rank, 3, master=master)) for rank in range(2)]
    for rank, store in enumerate(stores):
        heartbeat = Heartbeat(rank, 3)
        heartbeat.note_start(7 + rank)
        heartbeat.mark(Phase.EXCHANGING)
        store.publish(heartbeat)
    began = time.monotonic()
    found = stores[0].read()
    assert {rank: beat.done for rank, beat in found.items()} == {0: 7, 1: 8}
    assert found[0].phase == Phase.EXCHANGING
    assert time.monotonic() - began < 5  # rank 2 has left nothing, and is not waited for
    del server
    assert StorePeers(Launch(0, 0, 1, master="127.0.0.1:9")).read() == {}


LISTENING = """
import os, psutil, torch
from wstrain_torch.launch import torch_distributed
others = torch_distributed.connect(torch.device("cpu"))
assert others.gather(os.environ["RANK"]) == ["0", "1"]
found = [each.laddr.ip for each in psutil.Process().net_connections("inet") if each.status == "LISTEN"]
print(*sorted(set(found)), flush=True)
others.gather(None)  # nobody leaves before all have looked
os._exit(0)
"""


def test_ranks_of_one_machine_listen_to_nobody_else(warm: Callable[..., list[str]], tmp_path: Path) -> None:
    script = tmp_path / "listening.py"
    script.write_text(LISTENING)
    port = find_free_port()
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [*warm(), sys.executable, str(script)],
            env={**os.environ, **common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=60)[0].splitlines() for process in started]
        assert [lines[-1] for lines in said] == ["127.0.0.1"] * 2  # torch 2.10 says more, of gloo
    finally:
        for process in started:
            process.kill()


@pytest.mark.smoke
def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from wstrain_torch.launch import torch_distributed

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for name, value in {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "RANK": 0,
            "WORLD_SIZE": 2,
        }.items():
            monkeypatch.setenv(name, str(value))
        with pytest.raises(UserError, match=rf"port {port} \(MASTER_PORT\): address already in use"):
            torch_distributed.connect(torch.device("cpu"))


@pytest.mark.smoke
def test_ranks_that_share_a_gpu_learn_of_it() -> None:
    import torch.distributed as dist

    from wstrain_torch.launch.torch_distributed import find_shared_gpu

    for gpus, shared in ((["a", "b", "c"], []), (["a", "b", "a"], [0, 2])):
        store = dist.HashStore()
        with ThreadPoolExecutor(len(gpus)) as ranks:
            found = ranks.map(partial(find_shared_gpu, store), range(3), [3] * 3, gpus)
            assert list(found) == [shared] * 3

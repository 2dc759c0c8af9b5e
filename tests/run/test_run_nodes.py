"""Several machines on one: real namespaces, real ranks that meet across them, and nothing that stays."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from worldsize.lab.namespaces import probe_namespaces
from worldsize.running.launch.reserve import NODES_PREFIX

psutil = pytest.importorskip("psutil")
_ABLE = probe_namespaces()
HERE = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(120),
    pytest.mark.skipif(_ABLE.nodes is not None, reason=_ABLE.nodes[0] if _ABLE.nodes else ""),
]

JOB = """
    type: command
    compute: azureml:cpu
    environment: azureml:any@latest
    code: ./src
    command: {command}
    resources: {{instance_count: 2}}
    distribution: {{type: pytorch, process_count_per_instance: {each}}}
"""
# What each rank sees of its machine, then training steps that somebody may be waiting for.
LOOK = (
    "echo $(hostname) $MASTER_ADDR $NODE_RANK $(getent hosts node1 | cut -d' ' -f1) $TMPDIR;"
    " ls /sys/class/net | xargs echo devices;"
    ' for step in $(seq 100); do echo "{\\"step\\": $step}" >> $WORLDSIZE_PROGRESS; sleep 0.2; done'
)
TRAIN = """
    import os, socket
    import torch
    import torch.distributed.nn  # before there is a group, as the help for a thread of Gloo says
    import torch.distributed as dist

    def learn(model, data):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(20):
            optimizer.zero_grad()
            loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    assert socket.gethostbyname(socket.gethostname()) in ("10.213.0.1", "10.213.0.2")
    data = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    alone = learn(torch.nn.Linear(8, 1), data)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    whole = learn(model, data[rank::size])
    dist.all_reduce(whole)
    print("last loss", float(whole) / size, "alone", float(alone))
    del model
    dist.destroy_process_group()
    threads = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
    assert not any("gloo" in name for name in threads), threads  # one would abort the process now and then
"""

MEET = """
    import os, signal, socket, sys, time
    from mpi4py import MPI

    def told(*_):
        time.sleep(1.5)
        print("saved", flush=True)
        os._exit(143)

    signal.signal(signal.SIGTERM, told)
    world = MPI.COMM_WORLD
    near = world.Split_type(MPI.COMM_TYPE_SHARED)
    print(socket.gethostname(), world.allreduce(1), near.Get_size(), os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
    print(os.environ["AZ_BATCHAI_MPI_MASTER_NODE"], flush=True)
    open(f"up-{world.Get_rank()}", "w").close()
    while True:
        time.sleep(0.1)
"""


def traces() -> set[str]:
    """What emulated machines could leave behind: namespaces that have a process, devices, mounts."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    found = {line for line in mounts if "nsfs" in line or "worldsize" in line}
    found |= set(os.listdir("/sys/class/net"))  # noqa: PTH208
    for link in [*glob.glob("/proc/[0-9]*/ns/net"), *glob.glob("/proc/[0-9]*/ns/mnt")]:  # noqa: PTH207
        with contextlib.suppress(OSError):
            found.add(os.readlink(link))  # noqa: PTH115
    return found


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the nodes' folders alone; afterwards nothing more than before is there."""
    temporary = Path("/tmp") / f"wsn{os.getpid()}"  # short, because sockets are made below it
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    before = traces()
    yield temporary
    shutil.rmtree(temporary)
    deadline = time.monotonic() + 15
    while traces() - before and time.monotonic() < deadline:  # somebody else may have made some meanwhile
        time.sleep(0.1)
    assert traces() - before == set()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_maker_that_fails_makes_the_nodes_all_the_same(project: Any, quiet: Path, number: int) -> None:
    calls = project.folder / "calls"
    project.write(
        "bin/ip",
        f"""\
        #!/bin/sh
        echo >> {calls}
        case $(wc -l < {calls}) in 1|4) kill -{int(number)} $PPID ;; esac
        exec {shutil.which("ip")} "$@"
        """,
    ).chmod(0o755)
    project.write("src/empty.txt", "")
    project.write("job.yml", JOB.format(command="hostname", each=1))
    path = os.pathsep.join([str(project.folder / "bin"), os.environ["PATH"]])
    with project.start("job.yml", "--nodes", "namespaces", env={**os.environ, "PATH": path}) as process:
        said, _ = process.communicate(timeout=80)
    assert process.returncode == 0, said
    assert [project.log("command", rank).strip() for rank in range(2)] == ["node0", "node1"]
    assert list(quiet.iterdir()) == []


@pytest.mark.smoke
def test_instances_are_machines_and_a_killed_one_ends_the_step(project: Any, quiet: Path) -> None:
    project.write("src/empty.txt", "")
    project.write("job.yml", JOB.format(command=json.dumps(LOOK), each=2))
    status, text = project.run(
        "job.yml", "--nodes", "namespaces", "--link", "1gbit", "--kill", "node1@step:2"
    )
    assert status == 1
    assert "2 nodes that reach only each other, by links of 1 Gbit/s (`--link`)" in text
    said = "node1 (ranks 2 and 3) was killed by `--kill node1@step:2`"
    assert f"error: step `command` failed: {said}" in text
    for rank in range(4):
        first, devices = project.log("command", rank).splitlines()[:2]
        name, master, node, second, temporary = first.split()
        assert (name, node) == (f"node{rank // 2}", str(rank // 2))
        assert (master, second) == ("10.213.0.1", "10.213.0.2")
        assert Path(temporary).parent.name.startswith(NODES_PREFIX)
        assert Path(temporary).name == name
        assert devices == "devices eth0 lo"
    assert list(quiet.iterdir()) == []


def test_a_cable_is_pulled_and_plugged_in_again(project: Any, quiet: Path) -> None:
    watch = "for i in $(seq 50); do cat /sys/class/net/eth0/carrier; sleep 0.1; done"
    project.write("src/empty.txt", "")
    project.write("job.yml", JOB.format(command=json.dumps(watch), each=1))
    status, text = project.run("job.yml", "--nodes", "namespaces", "--drop-link", "node1@500ms for 1s")
    assert status == 0, text
    assert "the link of node1 (rank 1) was cut by `--drop-link node1@500ms for 1s`" in text
    assert "the link of node1 is up again" in text
    assert set(project.log("command", 0).split()) == {"1"}
    pulled = "".join(project.log("command", 1).split())
    assert pulled.strip("1").strip("0") == ""  # it went once
    assert pulled[0] == pulled[-1] == "1"
    assert 3 <= pulled.count("0") <= 30  # a second, on a machine that may be busy
    assert list(quiet.iterdir()) == []


@pytest.mark.smoke
def test_ranks_on_two_nodes_learn_what_one_process_learns(project: Any, quiet: Path) -> None:
    pytest.importorskip("torch")
    project.write("src/train.py", TRAIN)
    project.write("job.yml", JOB.format(command="python train.py", each=1))
    status, said = project.run("job.yml", "--nodes", "namespaces")
    assert status == 0, said + project.log("command", 1)
    for rank in range(2):
        _, _, losses = project.log("command", rank).splitlines()[-1].partition("last loss ")
        together, alone = map(float, losses.split(" alone "))
        assert 0 < together == pytest.approx(alone, rel=1e-4)


@pytest.mark.skipif(shutil.which("mpirun", path=HERE) is None, reason="Open MPI is not installed")
def test_mpi_starts_ranks_on_the_other_node_and_gives_them_time_to_end(project: Any, quiet: Path) -> None:
    pytest.importorskip("mpi4py")
    project.write("src/meet.py", MEET)
    job = JOB.format(command="python meet.py", each=2)
    project.write("job.yml", job.replace("pytorch", "mpi"))
    with project.start("job.yml", "--nodes", "namespaces") as runner:
        project.wait_for("up-*", count=4, seconds=60)
        runner.send_signal(signal.SIGINT)
        text, _ = runner.communicate(timeout=40)
    assert runner.returncode == 130, text
    for rank in range(4):
        name, local = f"node{rank // 2}", rank % 2
        assert project.log("command", rank).splitlines() == [f"{name} 4 2 {local}", "10.213.0.1", "saved"]
    assert list(quiet.iterdir()) == []


def test_a_killed_runner_leaves_nothing_that_the_next_does_not_remove(project: Any, quiet: Path) -> None:
    project.write("src/empty.txt", "")
    project.write("job.yml", JOB.format(command="'touch $TMPDIR/file; sleep 1.5 & sleep 1'", each=1))
    words, chance = ("job.yml", "--nodes", "namespaces", "--force"), random.Random(0)
    left = 0
    for _ in range(2):
        before = len(list(quiet.iterdir()))
        with project.start(*words) as runner:
            deadline = time.monotonic() + 30
            while len(glob.glob(f"{quiet}/*/nodes.json")) <= before and time.monotonic() < deadline:  # noqa: PTH207
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.5))
            runner.send_signal(signal.SIGKILL)
            runner.communicate(timeout=30)
        left += len(list(quiet.iterdir()))
        assert project.nothing_left()
    assert left  # otherwise nothing was tried
    status, text = project.run(*words)
    assert status == 0, text
    assert list(quiet.iterdir()) == []

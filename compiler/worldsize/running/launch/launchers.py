"""Turns a ``distribution`` into processes with Azure ML's environment; nothing is started here.

To add a launcher, write its two functions and name it in :data:`LAUNCHERS`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from worldsize.running.model.process import Call, Process, make_rank, shared_variables

PROGRAM = "mpirun"
MEMBER = Path(__file__).with_name("programs") / "member.py"
WORLD = "OMPI_COMM_WORLD_"
MPI_VARIABLES = frozenset(
    {f"{WORLD}{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK")}
    | {"AZ_BATCH_MASTER_NODE", "AZ_BATCHAI_MPI_MASTER_NODE"}
)

# As variables, because Open MPI ignores variables that it does not know.
SETTINGS = {
    # Ranks of one machine communicate through shared memory and do not listen on a network.
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "^tcp,openib,uct,ofi",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",  # 4.1: containers forbid the default
}
OVER_TCP = "^openib,uct,ofi"  # instead, if instances have their own addresses
# Where both versions keep sockets and shared memory, which remain when mpirun is killed.
FOLDERS = (
    "OMPI_MCA_orte_tmpdir_base",
    "PRTE_MCA_prte_tmpdir_base",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "OMPI_MCA_osc_sm_backing_directory",
)


def plan_mpi(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """``mpirun``, and the ranks as its members."""
    master = {"AZ_BATCHAI_MPI_MASTER_NODE": call.host(0)}
    if ports:
        master["AZ_BATCH_MASTER_NODE"] = f"{call.host(0)}:{ports[0]}"
    settings = dict(SETTINGS)
    if call.hosts:
        settings["OMPI_MCA_btl"] = OVER_TCP
    if call.world_size > call.cores:
        settings["OMPI_MCA_mpi_yield_when_idle"] = "1"  # a waiting rank must not use the core of another
    there = replace(call, prefixes=())  # mpirun itself starts programs on every instance
    ranks = tuple(make_rank(there, rank, {**master, **_world(call, rank)}) for rank in range(call.world_size))
    yield Process(
        PROGRAM,
        rank=None,
        local_rank=0,
        node=0,
        argv=(*call.prefix(0), *_line(call), sys.executable, "-I", "-S", str(MEMBER), *call.argv),
        env={**settings, **shared_variables(call), **master},
        members=ranks,
        rank_variable=f"{WORLD}RANK",
        private_folder=FOLDERS,
    )


def _line(call: Call) -> tuple[str, ...]:
    """The command line of mpirun; without binding, because two runs would bind to the same cores."""
    count = call.process_count_per_instance
    if call.hosts:  # ranks fill the first instance, then the next
        places = [f"{host}:{count}" for host in call.hosts]
        mapping: tuple[str, ...] = ("--map-by", f"ppr:{count}:node")
    else:
        places, mapping = [f"localhost:{call.world_size}"], ()
    return (
        PROGRAM,
        "--allow-run-as-root",
        "--oversubscribe",
        *("--bind-to", "none"),
        *mapping,
        *("--host", ",".join(places)),
        *("-np", str(call.world_size)),
    )


def _world(call: Call, rank: int) -> dict[str, str]:
    local_rank = str(rank % call.process_count_per_instance)
    return {
        f"{WORLD}RANK": str(rank),
        f"{WORLD}SIZE": str(call.world_size),
        f"{WORLD}LOCAL_RANK": local_rank,
        f"{WORLD}LOCAL_SIZE": str(call.process_count_per_instance),
        f"{WORLD}NODE_RANK": local_rank,
    }


PYTORCH_VARIABLES = frozenset({"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NODE_RANK", "RANK", "LOCAL_RANK"})
# Otherwise Gloo listens on the address of the machine's name, which other machines may reach.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0"}


# Otherwise Accelerate, and so Hugging Face's Trainer, lets every process train a model of its own.
ON_CPU = {"ACCELERATE_USE_CPU": "true"}


class Launcher(NamedTuple):
    """One launcher."""

    count_ports: Callable[[Call], int]  # how many free ports the processes of a call listen on
    # the processes in rank order, from a call and as many ports as it needs
    plan: Callable[[Call, Sequence[str]], Iterator[Process]]
    variables: frozenset[str] = frozenset()  # those that it sets for each process, so that no step can


def count_ports(call: Call) -> int:
    """How many free ports the launcher of a call needs."""
    return LAUNCHERS[call.launcher].count_ports(call)


def plan_processes(call: Call, ports: Sequence[str]) -> tuple[Process, ...]:
    """Plan the processes of one step, by rank. Ports are text, so that a dry run can pass placeholders."""
    return tuple(LAUNCHERS[call.launcher].plan(call, ports))


def plan_single(call: Call, _ports: Sequence[str]) -> Iterator[Process]:
    """A command without ``distribution``: one process."""
    yield make_rank(call, 0, _defaults_on_cpu(call) if call.launched_processes > 1 else {})


def _defaults_on_cpu(call: Call) -> dict[str, str]:
    """The variables for several processes without GPUs that the step itself does not set."""
    return {name: value for name, value in ON_CPU.items() if call.on_cpu and name not in call.env}


def plan_pytorch(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """``distribution: {type: pytorch}``: the command once per process, with torch's ``env://`` variables.

    Azure ML sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and NODE_RANK on every instance and RANK and LOCAL_RANK
    for every process (Microsoft Learn, "Distributed GPU training guide"). LOCAL_WORLD_SIZE is not part of
    that contract, so it is not set here either: a script that needs it fails here, not only in the cloud.
    """
    loopback = {} if call.hosts else {name: value for name, value in LOOPBACK.items() if name not in call.env}
    for rank in range(call.world_size):
        node, local_rank = divmod(rank, call.process_count_per_instance)
        rendezvous = {
            "MASTER_ADDR": call.host(0),
            "MASTER_PORT": ports[0],
            "WORLD_SIZE": str(call.world_size),
            "NODE_RANK": str(node),
            "RANK": str(rank),
            "LOCAL_RANK": str(local_rank),
            **loopback,
            **_defaults_on_cpu(call),
        }
        yield make_rank(call, rank, rendezvous)


def plan_tensorflow(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """``distribution: {type: tensorflow}``: the command once per worker and parameter server, with TF_CONFIG.

    TF_CONFIG is what Azure ML gives: lists of workers and parameter servers, the own task, and
    ``environment``; no chief, since worker 0 takes that part (Microsoft Learn, "Distributed GPU training
    guide"; Azure Batch AI, issue 15, for parameter servers, the first of which stands on the first instance
    beside worker 0). Azure ML writes an empty ``ps`` if there are none. TensorFlow from 2.13 crashes on
    that, and scripts for Azure delete it, so it is left out here.

    Workers come first, then parameter servers; both are dealt out over the instances in turn. A parameter
    server waits for requests forever. It is planned as a process that serves: when all workers have ended
    well it is ended, and the step has succeeded.
    """
    tasks = [("worker", index) for index in range(call.world_size)]
    tasks += [("ps", index) for index in range(call.parameter_server_count)]
    cluster: dict[str, list[str]] = {}
    for (kind, index), port in zip(tasks, ports, strict=True):
        cluster.setdefault(kind, []).append(f"{call.host(index % call.instance_count)}:{port}")
    cluster = dict(sorted(cluster.items()))
    processes_of_node = [0] * call.instance_count
    for rank, (kind, index) in enumerate(tasks):
        node = index % call.instance_count
        config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
        yield make_rank(
            call,
            rank,
            {"TF_CONFIG": json.dumps(config)},
            at=(node, processes_of_node[node]),
            name=f"{kind}-{index}",
            serves=kind == "ps",
        )
        processes_of_node[node] += 1


# By `distribution.type` in lower case; `none` without a distribution.
LAUNCHERS = {
    "none": Launcher(lambda _: 0, plan_single),
    "pytorch": Launcher(lambda _: 1, plan_pytorch, PYTORCH_VARIABLES),  # rank 0 listens on it
    "tensorflow": Launcher(  # each process is a server
        lambda call: call.process_count, plan_tensorflow, frozenset({"TF_CONFIG"})
    ),
    # AZ_BATCH_MASTER_NODE has one, if there are several instances
    "mpi": Launcher(lambda call: 1 if call.instance_count > 1 else 0, plan_mpi, MPI_VARIABLES),
}

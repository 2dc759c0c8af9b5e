"""How a ``distribution`` becomes processes with Azure ML's environment; nothing is started here.

To add a launcher, write its two functions and name it in :data:`LAUNCHERS`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from worldsize.running.launch.mpi import MPI_VARIABLES, count_mpi_ports, plan_mpi
from worldsize.running.model.process import Call, Process, make_rank

PYTORCH_VARIABLES = frozenset({"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NODE_RANK", "RANK", "LOCAL_RANK"})
# Otherwise Gloo listens where the machine's own name leads to, which may be an address that others reach.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0"}


class Launcher(NamedTuple):
    """One launcher.

    Attributes:
        count_ports: How many free ports the processes of a call listen on.
        plan: The processes in rank order, given as many ports as asked for.
        variables: Those that it sets for each process, so that no step can.
    """

    count_ports: Callable[[Call], int]
    plan: Callable[[Call, Sequence[str]], Iterator[Process]]
    variables: frozenset[str] = frozenset()


def count_ports(call: Call) -> int:
    """How many free ports the call's launcher wants reserved."""
    return LAUNCHERS[call.launcher].count_ports(call)


def plan_processes(call: Call, ports: Sequence[str]) -> tuple[Process, ...]:
    """The processes of one step, by rank.

    Args:
        call: The step.
        ports: As many as :func:`count_ports` says; text, so that a dry run can pass placeholders.
    """
    return tuple(LAUNCHERS[call.launcher].plan(call, ports))


def plan_single(call: Call, _ports: Sequence[str]) -> Iterator[Process]:
    """A command without ``distribution``: one process."""
    yield make_rank(call, 0, {})


def plan_pytorch(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """``distribution: {type: pytorch}``: the command once per process, with torch's ``env://`` variables.

    Azure ML sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and NODE_RANK on every instance and RANK and LOCAL_RANK
    for every process (Microsoft Learn, "Distributed GPU training guide"). LOCAL_WORLD_SIZE is not part of
    that contract, so it is not set here either: a script that needs it fails here and not first in the cloud.
    """
    loopback = {} if call.hosts else {name: each for name, each in LOOPBACK.items() if name not in call.env}
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
        }
        yield make_rank(call, rank, rendezvous)


def plan_tensorflow(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """``distribution: {type: tensorflow}``: the command once per worker and parameter server, with TF_CONFIG.

    TF_CONFIG is what Azure ML gives: lists of workers and parameter servers, the own task, and
    ``environment``; no chief, since worker 0 takes that part (Microsoft Learn, "Distributed GPU training
    guide"; Azure Batch AI, issue 15, for parameter servers, the first of which stands on the first instance
    beside worker 0). Azure ML writes an empty ``ps`` where there is none. TensorFlow from 2.13 crashes on
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


# By `distribution.type` in lower case; `none` where there is no distribution.
LAUNCHERS = {
    "none": Launcher(lambda _: 0, plan_single),
    "pytorch": Launcher(lambda _: 1, plan_pytorch, PYTORCH_VARIABLES),  # on which rank 0 gathers the others
    "tensorflow": Launcher(  # each process is a server to the others
        lambda call: call.world_size + call.parameter_server_count, plan_tensorflow, frozenset({"TF_CONFIG"})
    ),
    "mpi": Launcher(count_mpi_ports, plan_mpi, MPI_VARIABLES),
}

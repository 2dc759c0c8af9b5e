"""``distribution: {type: mpi}``: Open MPI's own ``mpirun``, which starts the command once per process.

Azure ML builds the ``mpirun`` line itself and promises OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK and
_LOCAL_SIZE, AZ_BATCHAI_MPI_MASTER_NODE (the address of the first instance) and, with several instances,
AZ_BATCH_MASTER_NODE (``address:port``). Where all instances are this machine, what a script reads from the
environment counts on the instance that is emulated; what it asks MPI itself, such as
``Split_type(COMM_TYPE_SHARED)``, is about the one machine there is. Where each instance is a network
namespace both agree: ``mpirun`` starts its daemon on the others as it does with ssh.
OMPI_COMM_WORLD_NODE_RANK is no number of an instance in the cloud either: it is the local rank.

``mpirun`` starts :mod:`worldsize.running.launch.programs.member` in place of the command. That gives each
rank its variables and its log, and says how it ended. The settings hold for Open MPI 4.1, which Azure ML's
images have, and for 5.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from worldsize.running.model.process import Call, Process, make_rank, shared_variables

PROGRAM = "mpirun"
MEMBER = Path(__file__).with_name("programs") / "member.py"
WORLD = "OMPI_COMM_WORLD_"
MPI_VARIABLES = frozenset(
    {f"{WORLD}{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK")}
    | {"AZ_BATCH_MASTER_NODE", "AZ_BATCHAI_MPI_MASTER_NODE"}
)

# As variables, because a setting that a version does not have is no error then.
SETTINGS = {
    # Ranks of one machine meet in shared memory: none of them listens on a network.
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "^tcp,openib,uct,ofi",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",  # 4.1: containers forbid what it tries first
}
OVER_TCP = "^openib,uct,ofi"  # instead, where instances are machines with addresses of their own
# Where both versions keep sockets and shared memory: when mpirun is killed nobody else removes them.
FOLDERS = (
    "OMPI_MCA_orte_tmpdir_base",
    "PRTE_MCA_prte_tmpdir_base",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "OMPI_MCA_osc_sm_backing_directory",
)


def count_mpi_ports(call: Call) -> int:
    """One that AZ_BATCH_MASTER_NODE names, where there are several instances."""
    return 1 if call.instance_count > 1 else 0


def plan_mpi(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """``mpirun``, and the ranks as its members."""
    master = {"AZ_BATCHAI_MPI_MASTER_NODE": call.host(0)}
    if ports:
        master["AZ_BATCH_MASTER_NODE"] = f"{call.host(0)}:{ports[0]}"
    settings = dict(SETTINGS)
    if call.hosts:
        settings["OMPI_MCA_btl"] = OVER_TCP
    if call.world_size > call.cores:
        settings["OMPI_MCA_mpi_yield_when_idle"] = "1"  # a rank that waits must not keep the others waiting
    there = replace(call, prefixes=())  # the launcher is on every instance itself
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
    """No binding: two runs side by side would bind to the same cores."""
    each = call.process_count_per_instance
    if call.hosts:  # ranks fill the first instance, then the next
        places = [f"{host}:{each}" for host in call.hosts]
        mapping: tuple[str, ...] = ("--map-by", f"ppr:{each}:node")
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

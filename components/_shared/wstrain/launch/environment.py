"""Which process this is, from the environment that the launcher sets.

Azure ML starts a ``distribution: {type: pytorch}`` command once per process and sets RANK, LOCAL_RANK,
WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT; ``torchrun`` sets the same. LOCAL_WORLD_SIZE is not part
of that contract. It starts ``{type: mpi}`` with Open MPI's ``mpirun``, which sets OMPI_COMM_WORLD_RANK, _SIZE
and _LOCAL_RANK (OMPI_COMM_WORLD_NODE_RANK is not the node's). This module needs no torch, so a wrong
launch is reported before torch is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wsshards.errors import UserError
from wstrain.launch.mesh import Mesh

_MPI = "OMPI_COMM_WORLD_"
_UNSET = {
    "pytorch": "`RANK` and `WORLD_SIZE` are not set",
    "mpi": f"`{_MPI}SIZE` is not set",
    "tensorflow": "`TF_CONFIG` is not set",
}
_COMPONENTS = {"pytorch": "train_ddp", "mpi": "train_horovod", "tensorflow": "train_tensorflow"}


@dataclass(frozen=True, slots=True)
class Launch:
    """This process among the others; ``master`` is ``host:port``, or None for a single process."""

    rank: int
    local_rank: int
    world_size: int
    node_rank: int = 0
    master: str | None = None

    @property
    def is_main(self) -> bool:
        """Whether this rank writes metrics, checkpoints and the model."""
        return self.rank == 0


def read_pytorch_environment(env: Mapping[str, str]) -> Launch:
    """Read the variables of a PyTorch launcher; without any of them, this is a single process.

    Raises:
        UserError: the variables are incomplete or contradictory, or another launcher started the process.
    """
    if not any(name in env for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")):
        refuse_other_launchers(env, "pytorch")
        return Launch(rank=0, local_rank=0, world_size=1)
    _expect_set(
        env,
        ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        "start the script with `distribution: {type: pytorch}`, with torchrun, or with none of these set",
    )
    rank, world_size = _read_rank(env, "RANK", "WORLD_SIZE")
    return Launch(
        rank=rank,
        local_rank=_integer(env, "LOCAL_RANK", low=0),
        world_size=world_size,
        node_rank=_integer(env, "NODE_RANK", low=0) if env.get("NODE_RANK") else 0,
        master=f"{env['MASTER_ADDR']}:{_integer(env, 'MASTER_PORT', low=1)}",
    )


def read_mpi_environment(env: Mapping[str, str]) -> Launch:
    """Read the variables of Open MPI's ``mpirun``; without any of them, this is a single process.

    Raises:
        UserError: the variables are incomplete or contradictory, or another launcher started the process.
    """
    names = (f"{_MPI}RANK", f"{_MPI}SIZE", f"{_MPI}LOCAL_RANK")
    if not any(name in env for name in names):
        refuse_other_launchers(env, "mpi")
        return Launch(rank=0, local_rank=0, world_size=1)
    _expect_set(
        env, names, "start the script with `distribution: {type: mpi}`, with Open MPI's mpirun, or alone"
    )
    rank, world_size = _read_rank(env, f"{_MPI}RANK", f"{_MPI}SIZE")
    # The node rank is not needed, as the ranks of one instance find each other by its host name.
    return Launch(rank, _integer(env, f"{_MPI}LOCAL_RANK", low=0), world_size)


def refuse_other_launchers(env: Mapping[str, str], own: str, unset: str | None = None) -> None:
    """Refuse a process that another launcher started in a group, as it would train alone on all the data.

    Args:
        env: the environment.
        own: the type of distribution that this component needs.
        unset: what that distribution did not set, for the message.

    Raises:
        UserError: another launcher started several processes.
    """
    for kind, count, cause in _started_by_others(env):
        if kind != own and count > 1:
            advice = f"use `distribution: {{type: {own}}}` for this component, or `{_COMPONENTS[kind]}`"
            raise UserError(f"{cause} but {unset or _UNSET[own]}", advice)


def expect_world_size(launch: Launch, planned: int) -> None:
    """Check that as many processes were started as planned.

    Learning rate, accumulation and shards were derived for the planned number.

    Raises:
        UserError: the numbers differ; the message has both.
    """
    if launch.world_size != planned:
        raise UserError(
            f"the plan is for {_processes(planned)} but the launcher started {launch.world_size}",
            "make `instance_count` × `process_count_per_instance` equal `world_size`, or plan again",
        )


def expect_global_batch(mesh: Mesh, *, per_device: int, accumulation: int, global_batch: int) -> None:
    """Check ``G = b·a·D``, where D counts the replicas of the model: without model parallelism, all ranks.

    Raises:
        UserError: the product is another number; the message has both.
    """
    product = per_device * accumulation * mesh.data
    if product != global_batch:
        replicas = _processes(mesh.data) if mesh.data == mesh.world_size else f"{mesh.data} replicas"
        raise UserError(
            f"`global_batch_size` is {global_batch} but {per_device} a device × {accumulation} accumulation"
            f" steps × {replicas} = {product}",
            "change one of the factors; the global batch is what the learning rate was planned for",
        )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _expect_set(env: Mapping[str, str], names: Sequence[str], advice: str) -> None:
    missing = ", ".join(f"`{name}`" for name in names if not env.get(name))
    if missing:
        message = f"the launcher did not set {missing}, so this process does not know its rank"
        raise UserError(message, advice)


def _read_rank(env: Mapping[str, str], rank_name: str, size_name: str) -> tuple[int, int]:
    world_size = _integer(env, size_name, low=1)
    rank = _integer(env, rank_name, low=0)
    if rank >= world_size:
        raise UserError(f"`{rank_name}` is {rank} but `{size_name}` is {world_size}; ranks count from 0")
    return rank, world_size


def _integer(env: Mapping[str, str], name: str, *, low: int) -> int:
    try:
        value = int(env[name])
    except ValueError:
        raise UserError(f"`{name}` is `{env[name]}`, which is not a whole number") from None
    if value < low:
        raise UserError(f"`{name}` is {value}, but must be at least {low}")
    return value


def _started_by_others(env: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    for kind, name in (("pytorch", "WORLD_SIZE"), ("mpi", f"{_MPI}SIZE")):
        size = _count(env.get(name, ""))
        yield kind, size, f"`{name}` says that {size} processes were started"
    workers = _tensorflow_workers(env.get("TF_CONFIG", ""))
    yield "tensorflow", workers, f"`TF_CONFIG` names {workers} workers"


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 1


def _tensorflow_workers(config: str) -> int:
    try:
        return len(json.loads(config)["cluster"]["worker"])
    except (ValueError, KeyError, TypeError):
        return 1

"""The processes of a step as plain data: what would be started, decided without starting anything.

A step becomes a :class:`Call`; its launcher turns that into one :class:`Process` a rank. So ``--dry-run``
prints, and a test compares, exactly what a run would start.

Who starts a rank is part of the plan: a process with ``members``, such as ``mpirun``, is started here and
starts those itself. Each of them is known, watched and named like a rank that is started here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Call:
    """What one step runs, before it is known how often.

    ``env`` holds what is the same in every process. ``gpus`` are the devices lent to the step, empty
    where the machine has none or the step has all of them and needs no restriction.
    """

    step: str
    launcher: str  # none, pytorch, tensorflow, mpi
    command: str  # placeholders filled in
    instance_count: int = 1
    process_count_per_instance: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    cores: int = 1
    shell: str = "bash"
    worker_count: int | None = None  # TensorFlow counts workers, not processes of an instance
    parameter_server_count: int = 0
    hosts: tuple[str, ...] = ()  # the address of each instance; without them all are this machine
    prefixes: tuple[tuple[str, ...], ...] = ()  # what starts a program on each instance

    def host(self, node: int) -> str:
        """The address of an instance, as the others reach it."""
        return self.hosts[node] if self.hosts else "127.0.0.1"

    def prefix(self, node: int) -> tuple[str, ...]:
        """What starts a program on an instance."""
        return self.prefixes[node] if self.prefixes else ()

    @property
    def world_size(self) -> int:
        """Processes that train; parameter servers are not among them."""
        if self.worker_count is not None:
            return self.worker_count
        return self.instance_count * self.process_count_per_instance

    @property
    def argv(self) -> tuple[str, ...]:
        """The shell line, as Azure ML runs it: one string handed to a shell."""
        return (self.shell, "-c", self.command)


@dataclass(frozen=True, slots=True)
class Process:
    """One process to start. ``env`` holds only what is set on top of the runner's environment."""

    name: str  # "rank-0", "ps-1", "mpirun": its log file's stem
    rank: int | None  # None for a process that only starts others
    local_rank: int
    node: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    serves: bool = False  # it never ends by itself: the step is over when all others have ended well
    members: tuple[Process, ...] = ()  # what this process starts, by rank
    rank_variable: str = ""  # what tells a member its rank
    private_folder: tuple[
        str, ...
    ] = ()  # variables that are set to a folder which lasts as long as the group

    @property
    def title(self) -> str:
        """How messages call it: ``rank 0``, ``ps 1``, ``mpirun``."""
        return self.name.replace("-", " ")


def walk_processes(plan: Iterable[Process]) -> Iterator[Process]:
    """All processes of a plan, those first that start others."""
    for process in plan:
        yield process
        yield from process.members


def make_rank(
    call: Call,
    rank: int,
    env: Mapping[str, str],
    *,
    at: tuple[int, int] | None = None,
    name: str | None = None,
    serves: bool = False,
) -> Process:
    """The process of one rank: its place among the others, and the variables that every launcher sets.

    Args:
        call: The step.
        rank: From 0.
        env: What the launcher adds for this rank.
        at: Its instance, and its number there. By default ranks fill the first instance, then the next.
        name: By default ``rank-N``.
        serves: Whether it never ends by itself.
    """
    node, local_rank = at or divmod(rank, call.process_count_per_instance)
    alone = call.world_size + call.parameter_server_count == 1
    own = {
        "AZUREML_CR_NODE_RANK": str(node),
        "AZUREML_PROCESS_NAME": "main" if alone else f"rank_{rank}",
        **_visible_gpus(call, node),
    }
    full = {**shared_variables(call), **own, **env}
    argv = (*call.prefix(node), *call.argv)
    return Process(name or f"rank-{rank}", rank, local_rank, node, argv, full, serves=serves)


def shared_variables(call: Call) -> dict[str, str]:
    """The variables that are the same in every process of a call."""
    # Left alone, each process would start as many threads as the machine has cores.
    return {"OMP_NUM_THREADS": str(max(1, call.cores // call.world_size)), **call.env}


def _visible_gpus(call: Call, node: int) -> dict[str, str]:
    """Each emulated instance sees GPUs of its own: LOCAL_RANK counts from 0 on every one of them."""
    if not call.gpus:
        return {}
    share = max(1, len(call.gpus) // call.instance_count)
    return {"CUDA_VISIBLE_DEVICES": ",".join(call.gpus[node * share : (node + 1) * share])}


class Places(Protocol):
    """Gives the instances of a call their places for as long as a group runs."""

    def place(self, call: Call) -> AbstractContextManager[Call]:
        """The call with addresses and argument prefixes of its instances; the places end with the context.

        Raises:
            OSError: a place cannot be made.
        """


class LocalPlaces:
    """Every instance is this very machine."""

    def place(self, call: Call) -> AbstractContextManager[Call]:
        """The call as it is."""
        return contextlib.nullcontext(call)

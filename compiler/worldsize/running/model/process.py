"""The processes of a step as plain data, planned without starting anything.

A step becomes a :class:`Call`, which its launcher turns into one :class:`Process` per rank. So ``--dry-run``
prints, and tests compare, exactly what a run starts.

A process with ``members``, such as ``mpirun``, starts those ranks itself. They are watched and named like
ranks that are started directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field


class Scale(Struct, frozen=True, kw_only=True):
    """How many processes a launcher starts."""

    launcher: str = "none"  # none, pytorch, tensorflow, mpi
    instance_count: int = 1
    process_count_per_instance: int = 1
    worker_count: int | None = None  # TensorFlow's, which starts workers and not processes of an instance
    parameter_server_count: int = 0

    @property
    def world_size(self) -> int:
        """Processes that train; parameter servers are not among them."""
        if self.worker_count is not None:
            return self.worker_count
        return self.instance_count * self.process_count_per_instance

    @property
    def process_count(self) -> int:
        """Processes that are started."""
        return self.world_size + self.parameter_server_count


class Call(Scale, frozen=True):
    """What one step runs, before it is multiplied by a launcher.

    ``env`` holds what is the same in every process. ``gpus`` are the devices lent to the step, empty
    where the machine has none or the step has all of them and needs no restriction.
    """

    step: str
    command: str  # placeholders filled in
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    cores: int = 1
    shell: str = "bash"
    hosts: tuple[str, ...] = ()  # the address of each instance; empty if all are this machine
    prefixes: tuple[tuple[str, ...], ...] = ()  # the command prefix that starts a program on each instance
    on_cpu: bool = False  # because the machine has no GPUs
    launched_processes: int = 1  # that a launcher in the command starts for each process

    def host(self, node: int) -> str:
        """The address of an instance for the other instances."""
        return self.hosts[node] if self.hosts else "127.0.0.1"

    def prefix(self, node: int) -> tuple[str, ...]:
        """The command prefix that starts a program on an instance."""
        return self.prefixes[node] if self.prefixes else ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The shell command as Azure ML runs it: one string for a shell."""
        return (self.shell, "-c", self.command)


class Process(Struct, frozen=True):
    """One process to start. ``env`` holds only what is set on top of the runner's environment."""

    name: str  # "rank-0", "ps-1", "mpirun": its log file's stem
    rank: int | None  # None for a process that only starts others
    local_rank: int
    node: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    serves: bool = False  # it never ends itself: the step ends when all others have succeeded
    members: tuple[Process, ...] = ()  # the ranks that this process starts
    rank_variable: str = ""  # the variable with a member's rank
    private_folder: tuple[str, ...] = ()  # variables for a folder that lasts as long as the group

    @property
    def title(self) -> str:
        """How messages call it: ``rank 0``, ``ps 1``, ``mpirun``."""
        return self.name.replace("-", " ")


def walk_processes(plan: Iterable[Process]) -> Iterator[Process]:
    """All processes of a plan, those that start others first."""
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
    """Make the process of one rank, with the variables that every launcher sets.

    Args:
        call: The step.
        rank: From 0.
        env: What the launcher adds for this rank.
        at: Its instance, and its number there. By default ranks fill one instance after the other.
        name: By default ``rank-N``.
        serves: Whether it never ends itself.
    """
    node, local_rank = at or divmod(rank, call.process_count_per_instance)
    alone = call.process_count == 1
    full = {
        **shared_variables(call),
        "AZUREML_CR_NODE_RANK": str(node),
        "AZUREML_PROCESS_NAME": "main" if alone else f"rank_{rank}",
        **_visible_gpus(call, node),
        **env,
    }
    argv = (*call.prefix(node), *call.argv)
    return Process(name or f"rank-{rank}", rank, local_rank, node, argv, full, serves=serves)


def shared_variables(call: Call) -> dict[str, str]:
    """The variables that are the same in every process of a call."""
    # By default each process would start as many threads as the machine has cores.
    threads = max(1, call.cores // (call.world_size * call.launched_processes))
    return {"OMP_NUM_THREADS": str(threads), **call.env}


def _visible_gpus(call: Call, node: int) -> dict[str, str]:
    """The GPUs of an emulated instance, because LOCAL_RANK counts from 0 on each instance."""
    if not call.gpus:
        return {}
    share = max(1, len(call.gpus) // call.instance_count)
    return {"CUDA_VISIBLE_DEVICES": ",".join(call.gpus[node * share : (node + 1) * share])}

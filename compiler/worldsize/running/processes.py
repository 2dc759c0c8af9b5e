"""The plan of processes: what would be started, decided without starting anything.

A step becomes a :class:`Call`; its launcher turns that into one :class:`Process` a rank. Both are plain
data, so that ``--dry-run`` prints and a test compares exactly what a run would start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from worldsize.running import launchers


@dataclass(frozen=True, slots=True)
class Call:
    """What one step runs, before it is known how often.

    ``env`` holds what is the same in every process. ``gpus`` are the devices lent to the step, empty
    where the machine has none or the step has all of them and needs no restriction.
    """

    step: str
    launcher: str  # none, pytorch
    command: str  # placeholders filled in
    instance_count: int = 1
    process_count_per_instance: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    cores: int = 1
    shell: str = "bash"

    @property
    def world_size(self) -> int:
        """Processes that the launcher starts."""
        return self.instance_count * self.process_count_per_instance

    @property
    def argv(self) -> tuple[str, ...]:
        """The shell line, as Azure ML runs it: one string handed to a shell."""
        return (self.shell, "-c", self.command)


@dataclass(frozen=True, slots=True)
class Process:
    """One process to start. ``env`` holds only what is set on top of the runner's environment."""

    name: str  # "rank-0": how messages call it, and its log file's stem
    rank: int
    local_rank: int
    node: int
    argv: tuple[str, ...]
    env: Mapping[str, str]


def ports_needed(call: Call) -> int:
    """How many free ports the call's launcher wants reserved."""
    return launchers.find(call.launcher).ports_needed(call)


def plan(call: Call, ports: Sequence[str]) -> tuple[Process, ...]:
    """The processes of one step, by rank.

    Args:
        call: The step.
        ports: As many as :func:`ports_needed` says; text, so that a dry run can pass placeholders.
    """
    return tuple(launchers.find(call.launcher).processes(call, ports))


def place(call: Call, rank: int, env: Mapping[str, str]) -> Process:
    """The process of one rank: its place among the others, and the variables that every launcher sets.

    Args:
        call: The step.
        rank: From 0; ranks fill the first instance, then the next.
        env: What the launcher adds for this rank.
    """
    node, local_rank = divmod(rank, call.process_count_per_instance)
    alone = call.world_size == 1
    own = {
        "AZUREML_CR_NODE_RANK": str(node),
        "AZUREML_PROCESS_NAME": "main" if alone else f"rank_{rank}",
        **_visible_gpus(call, node),
    }
    # Left alone, each process would start as many threads as the machine has cores.
    threads = {"OMP_NUM_THREADS": str(max(1, call.cores // call.world_size))}
    return Process(f"rank-{rank}", rank, local_rank, node, call.argv, {**threads, **call.env, **own, **env})


def _visible_gpus(call: Call, node: int) -> dict[str, str]:
    """Each emulated instance sees GPUs of its own: LOCAL_RANK counts from 0 on every one of them."""
    if not call.gpus:
        return {}
    share = max(1, len(call.gpus) // call.instance_count)
    return {"CUDA_VISIBLE_DEVICES": ",".join(call.gpus[node * share : (node + 1) * share])}

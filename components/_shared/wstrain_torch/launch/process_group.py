"""The group of processes that train together, and the communication between them besides gradients."""

from __future__ import annotations

import importlib
import os
import socket
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import torch

from wsshards.errors import describe_error, print_warning
from wstrain.health.rank_status import RankStatus, fail_together
from wstrain.launch.environment import Launch
from wstrain.launch.gpus import PlannedGpus, describe_idle_gpus, expect_gpus
from wstrain.launch.mesh import Mesh

T = TypeVar("T")

TORCH_DISTRIBUTED = "wstrain_torch.launch.torch_distributed"


class Group:
    """This process in its group; a single process starts no communication.

    Args:
        launch: which process this is.
        communication: full name of the module that connects the ranks.
        mesh: how the model is divided; by default every rank has a whole copy.
        planned: the GPUs that an instance was planned to have.

    Raises:
        UserError: the machine has no GPU for this local rank, or not those of the plan.
    """

    def __init__(
        self,
        launch: Launch,
        communication: str = TORCH_DISTRIBUTED,
        mesh: Mesh | None = None,
        planned: PlannedGpus | None = None,
    ) -> None:
        self.launch = launch
        self.mesh = mesh or Mesh(launch.world_size)
        self.status = RankStatus()
        self.device = _device(launch, planned or PlannedGpus())
        self._communicator = connect(communication if launch.world_size > 1 else "", self.device)
        self.local_rank, self.local_size = self._neighbours()
        _limit_threads(self.local_size, self.device)
        if self.is_main and self.device.type == "cuda":
            idle = describe_idle_gpus(planned or PlannedGpus(), torch.cuda.device_count(), self.local_size)
            if idle is not None:
                print_warning(idle)

    @property
    def device_name(self) -> str:
        """What the driver calls this rank's GPU; ``cpu`` without one."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"

    @property
    def is_main(self) -> bool:
        """Whether this rank writes metrics, checkpoints and the model."""
        return self.launch.is_main

    @property
    def replica(self) -> int:
        """The replica of the model that this rank holds, or holds a part of."""
        return self.mesh.replica(self.launch.rank)

    def leave(self) -> None:
        """Close the communication, so that no rank sees another vanish."""
        self._communicator.close()

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Average a tensor over ranks, in place."""
        self._communicator.sum(values)
        values /= self.launch.world_size
        return values

    def average(
        self, losses: Sequence[torch.Tensor], seconds: float, compute_seconds: float = 0.0
    ) -> tuple[list[float], float, list[float]]:
        """Average 0-d losses and a time over ranks, and exchange ``compute_seconds`` and statuses."""
        values = torch.stack(list(losses)).double()
        world_size = self.launch.world_size
        times = values.new_zeros(1 + world_size)
        times[0] = seconds
        times[1 + self.launch.rank] = compute_seconds * world_size  # the mean of this and zeros
        statuses = values.new_tensor(self.status.numbers())
        means: list[float] = self.mean(torch.cat([values, times, statuses])).tolist()
        mean_losses, seconds, rest = means[: len(losses)], means[len(losses)], means[len(losses) + 1 :]
        self.status.receive(rest[world_size:], mean_losses, seconds)
        return mean_losses, seconds, rest[:world_size]

    def title(self, rank: int) -> str:
        """Return a rank's name in messages, with its machine."""
        return f"rank {rank} (on `{self._hosts[rank]}`)"

    def broadcast(self, value: T | None) -> T | None:
        """Return rank 0's value on every rank."""
        return self._communicator.broadcast(value)

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, by rank."""
        return self._communicator.gather(value)

    def together(self) -> AbstractContextManager[None]:
        """Run code that may fail on one rank; if it does, all ranks raise the same error."""
        return fail_together(self.gather)

    def _neighbours(self) -> tuple[int, int]:
        # Azure ML does not set LOCAL_WORLD_SIZE, so the ranks of one host count each other.
        ranks = self._communicator.gather((socket.gethostname(), self.launch.node_rank))
        self._hosts = [host for host, _ in ranks]
        local = [rank for rank, host in enumerate(ranks) if host == ranks[self.launch.rank]]
        return local.index(self.launch.rank), len(local)


def _device(launch: Launch, planned: PlannedGpus) -> torch.device:
    """Return this rank's device; checked before ranks connect, so that none waits for one that has failed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the error below has the reason
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        expect_gpus(planned, count, "" if count else _why_no_cuda(), launch.local_rank)
    if not count:
        return torch.device("cpu")
    torch.cuda.set_device(launch.local_rank)
    return torch.device("cuda", launch.local_rank)


def _why_no_cuda() -> str:
    built = f"torch {torch.__version__} for CUDA {torch.version.cuda}"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (
        AssertionError,
        RuntimeError,
    ) as error:  # a build without CUDA; a driver that is missing or too old
        return f"{built} says `{describe_error(error).split('. ')[0]}`"
    return f"`torch.cuda.is_available()` is False in {built}"


def _limit_threads(local_size: int, device: torch.device) -> None:
    # PyTorch takes all cores for each process; several ranks on one host would fight for them.
    if "OMP_NUM_THREADS" in os.environ or device.type != "cpu":
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, cores // local_size))


class Communicator(Protocol):
    """Collectives over all ranks; every method is called on every rank, in the same order."""

    def sum(self, values: torch.Tensor) -> None:
        """Add a tensor up over ranks, in place."""

    def broadcast(self, value: T) -> T:
        """Return rank 0's value, which can be pickled."""

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, by rank."""

    def close(self) -> None:
        """Leave the group in an orderly way."""


class SingleProcess:
    """The communicator of a group of one."""

    def sum(self, values: torch.Tensor) -> None:
        """Do nothing."""

    def broadcast(self, value: T) -> T:
        """Return the value."""
        return value

    def gather(self, value: T) -> list[T]:
        """Return the one value."""
        return [value]

    def close(self) -> None:
        """Do nothing."""


def connect(name: str, device: torch.device) -> Communicator:
    """Connect to the other ranks.

    Args:
        name: full name of the module that does so, as a component carries only its own; empty for one
            process.
        device: where this rank's tensors live.
    """
    if not name:
        return SingleProcess()
    communicator: Communicator = importlib.import_module(name).connect(device)
    return communicator

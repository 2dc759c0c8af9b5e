"""The group of processes that train together: joining, agreeing, averaging, leaving."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from wsshards.errors import UserError
from wstrain.health.rank_status import RankStatus
from wstrain.launch.environment import Launch
from wstrain.launch.gpus import PlannedGpus, expect_gpus
from wstrain.launch.mesh import Mesh
from wstrain_torch.launch.communication import connect

T = TypeVar("T")

TORCH_DISTRIBUTED = "wstrain_torch.launch.communication.torch_distributed"


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
        self._others = connect(communication if launch.world_size > 1 else "", self.device)
        self.local_rank, self.local_size = self._neighbours()
        _limit_threads(self.local_size, self.device)

    @property
    def replica(self) -> int:
        """The replica of the model that this rank holds, or holds a part of."""
        return self.mesh.replica(self.launch.rank)

    def leave(self) -> None:
        """Close the communication, so that no rank sees another vanish."""
        self._others.close()

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Average a tensor over ranks, in place."""
        self._others.sum(values)
        values /= self.launch.world_size
        return values

    def average(
        self, losses: Sequence[torch.Tensor], seconds: float, compute_seconds: float = 0.0
    ) -> tuple[list[float], float, list[float]]:
        """Average 0-d losses and a time over ranks; ``compute_seconds`` and statuses travel with them."""
        values = torch.stack(list(losses)).double()
        world_size = self.launch.world_size
        times = values.new_zeros(1 + world_size)
        times[0], times[1 + self.launch.rank] = (
            seconds,
            compute_seconds * world_size,
        )  # the mean of one and zeros
        statuses = values.new_tensor(self.status.numbers())
        means: list[float] = self.mean(torch.cat([values, times, statuses])).tolist()
        mean_losses, seconds, rest = means[: len(losses)], means[len(losses)], means[len(losses) + 1 :]
        self.status.receive(rest[world_size:], mean_losses, seconds)
        return mean_losses, seconds, rest[:world_size]

    def title(self, rank: int) -> str:
        """Return a rank's name in messages, with its machine."""
        return f"rank {rank} (on `{self._hosts[rank]}`)"

    def from_main(self, value: T | None) -> T | None:
        """Return rank 0's value on every rank."""
        return self._others.broadcast(value)

    def everyone(self, value: T) -> list[T]:
        """Return the values of all ranks, by rank."""
        return self._others.gather(value)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run code that may fail on one rank; if it does, all ranks raise the same error.

        Without it the others would wait in their next collective for a rank that has ended.
        """
        failure: UserError | None = None
        try:
            yield
        except UserError as error:
            failure = error
        for message in self._others.gather((failure.message, failure.help) if failure else None):
            if message is not None:
                raise UserError(*message)

    def _neighbours(self) -> tuple[int, int]:
        # Azure ML does not set LOCAL_WORLD_SIZE, so the ranks of one host count each other.
        ranks = self._others.gather((socket.gethostname(), self.launch.node_rank))
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
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"{built} says `{first.split('. ')[0].rstrip('.')[:140]}`"
    return f"`torch.cuda.is_available()` is False in {built}"


def _limit_threads(local_size: int, device: torch.device) -> None:
    # PyTorch takes all cores for each process; several ranks on one host would fight for them.
    if "OMP_NUM_THREADS" in os.environ or device.type != "cpu":
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, cores // local_size))

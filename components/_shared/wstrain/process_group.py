"""The processes that train together: joining, agreeing, averaging, leaving."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist

from wstrain.errors import UserError
from wstrain.launch import Launch

T = TypeVar("T")


class Group:
    """This process's membership; a single process is a group of one and starts no communication.

    Args:
        launch: who this process is.

    Raises:
        UserError: the machine has no GPU for this local rank.
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.device = _device(launch)
        if launch.world_size > 1:
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        self.local_rank, self.local_size = self._neighbours()
        _limit_threads(self.local_size, self.device)

    def leave(self) -> None:
        """Close the communication, so that no rank sees another vanish."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Average a tensor over ranks, in place."""
        if self.launch.world_size > 1:
            dist.all_reduce(values)
            values /= self.launch.world_size
        return values

    def from_main(self, value: T | None) -> T | None:
        """Give every rank what rank 0 has."""
        if self.launch.world_size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, device=self.device)
        return box[0]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run a part that may fail on one rank only; if it does, it fails on all with the same sentence.

        Without it the others would wait in their next collective for a rank that has gone.
        """
        failure: UserError | None = None
        try:
            yield
        except UserError as error:
            failure = error
        for message in self._gather((failure.message, failure.help) if failure else None):
            if message is not None:
                raise UserError(*message)

    def _neighbours(self) -> tuple[int, int]:
        # LOCAL_WORLD_SIZE is not part of Azure ML's contract, so the ranks of one host count each other.
        ranks = self._gather((socket.gethostname(), self.launch.node_rank))
        here = [rank for rank, place in enumerate(ranks) if place == ranks[self.launch.rank]]
        return here.index(self.launch.rank), len(here)

    def _gather(self, value: T) -> list[T]:
        if self.launch.world_size == 1:
            return [value]
        values: list[T] = [value] * self.launch.world_size
        dist.all_gather_object(values, value)
        return values


def _device(launch: Launch) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if launch.local_rank >= count:
        raise UserError(
            f"`LOCAL_RANK` is {launch.local_rank} but this machine has {count} GPU{'s' * (count != 1)}",
            f"set `process_count_per_instance` to {count}",
        )
    torch.cuda.set_device(launch.local_rank)
    return torch.device("cuda", launch.local_rank)


def _limit_threads(local_size: int, device: torch.device) -> None:
    # PyTorch takes all cores for each process; several ranks on one host would fight for them.
    if "OMP_NUM_THREADS" in os.environ or device.type != "cpu":
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, cores // local_size))

"""``torch.distributed``: NCCL between GPUs, gloo between CPUs."""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


class TorchDistributed:
    """Membership of the default process group, which strategies build on too."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # Gloo too where there are GPUs: what is offloaded to the host is exchanged there.
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")

    def sum(self, values: torch.Tensor) -> None:
        """Add a tensor up over ranks, in place."""
        dist.all_reduce(values)

    def broadcast(self, value: T) -> T:
        """Return rank 0's value."""
        box = [value]
        dist.broadcast_object_list(box, device=self._device)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Return everybody's value, by rank."""
        values: list[T] = [value] * dist.get_world_size()
        dist.all_gather_object(values, value)
        return values

    def close(self) -> None:
        """Leave the group as it is: it ends with the process, see :func:`wstrain.errors.entry`.

        In torch 2.13 the destructor of a gloo group waits for its own thread with Python's lock held, and
        that thread may wait for the lock to let go of a tensor. So the group must neither be destroyed nor
        lose its last reference, which the registry of torch.distributed keeps.
        """


def connect(device: torch.device) -> TorchDistributed:
    """Join the process group that MASTER_ADDR and RANK describe."""
    return TorchDistributed(device)

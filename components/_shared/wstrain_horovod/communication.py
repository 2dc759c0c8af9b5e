"""Horovod over MPI: ``mpirun`` has started the ranks and knows all of them."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TypeVar, cast

import torch

from wsshards.errors import UserError, describe_error
from wstrain_horovod.launch import REBUILD

T = TypeVar("T")


class Horovod:
    """Membership of Horovod's group of all ranks, which its optimizer uses too."""

    def __init__(self) -> None:
        self._hvd = load_horovod()
        self._hvd.init()
        started = os.environ.get("OMPI_COMM_WORLD_SIZE", "")
        if started.isdigit() and int(started) != self._hvd.size():
            # Each rank would train alone, on all the data: a library of one MPI under the mpirun of another.
            raise UserError(
                f"`mpirun` started {started} processes but Horovod's MPI knows of {self._hvd.size()}",
                f"start with the `mpirun` of the MPI that Horovod is linked to, or {REBUILD}",
            )

    def sum(self, values: torch.Tensor) -> None:
        """Add a tensor up over ranks, in place."""
        # Horovod plans an exchange once for each name and shape.
        name = f"{values.dtype}{list(values.shape)}"
        self._hvd.allreduce_(values, op=self._hvd.Sum, name=f"worldsize.sum.{name}")

    def broadcast(self, value: T) -> T:
        """Return rank 0's value."""
        return cast("T", self._hvd.broadcast_object(value, root_rank=0, name="worldsize.broadcast"))

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, by rank."""
        return cast("list[T]", self._hvd.allgather_object(value, name="worldsize.gather"))

    def close(self) -> None:
        """Leave Horovod and MPI; a process that ends without tells ``mpirun`` that it failed."""
        self._hvd.shutdown()


def load_horovod() -> ModuleType:
    """Import Horovod.

    Raises:
        UserError: its library does not load, as it was compiled for another torch or another MPI.
    """
    try:
        import horovod.torch as hvd  # only this component's environment has it
    except (ImportError, OSError, RuntimeError) as error:
        raise UserError(f"Horovod does not load: {describe_error(error, 140)}", REBUILD) from error
    return cast("ModuleType", hvd)


def connect(_device: torch.device) -> Horovod:
    """Join the ranks that ``mpirun`` started."""
    return Horovod()

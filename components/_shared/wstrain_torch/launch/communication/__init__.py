"""What the ranks say to each other besides gradients: one file a library, one protocol for all."""

from __future__ import annotations

import importlib
from typing import Protocol, TypeVar, cast

import torch

T = TypeVar("T")


class Communicator(Protocol):
    """Collectives over all ranks; every method is called on every rank, in the same order."""

    def sum(self, values: torch.Tensor) -> None:
        """Add a tensor up over ranks, in place."""

    def broadcast(self, value: T) -> T:
        """Return rank 0's value, which can be pickled."""

    def gather(self, value: T) -> list[T]:
        """Return everybody's value, by rank."""

    def close(self) -> None:
        """Leave, so that no rank sees another vanish."""


class SingleProcess:
    """The communicator of a group of one."""

    def sum(self, values: torch.Tensor) -> None:
        """Nothing to add."""

    def broadcast(self, value: T) -> T:
        """Return the value."""
        return value

    def gather(self, value: T) -> list[T]:
        """Return the one value."""
        return [value]

    def close(self) -> None:
        """Nothing to leave."""


class Connect(Protocol):
    """What a communication module offers."""

    def connect(self, device: torch.device) -> Communicator:
        """Meet the other ranks; ``device`` is where this rank's tensors live."""


def connect(name: str, device: torch.device) -> Communicator:
    """Meet the other ranks through a module, by its full name: a component carries only its own.

    Args:
        name: the module; empty for a single process.
        device: where this rank's tensors live.
    """
    if not name:
        return SingleProcess()
    module = cast("Connect", importlib.import_module(name))
    return module.connect(device)

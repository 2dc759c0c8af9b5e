"""Collectives between ranks besides gradients: one module for each library, one protocol for all."""

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


class Connect(Protocol):
    """What a communication module offers."""

    def connect(self, device: torch.device) -> Communicator:
        """Connect to the other ranks; ``device`` is where this rank's tensors live."""


def connect(name: str, device: torch.device) -> Communicator:
    """Connect to the other ranks.

    Args:
        name: full name of the module that does so, as a component carries only its own; empty for one
            process.
        device: where this rank's tensors live.
    """
    if not name:
        return SingleProcess()
    module = cast("Connect", importlib.import_module(name))
    return module.connect(device)

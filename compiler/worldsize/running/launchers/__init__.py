"""One file a launcher: how a ``distribution`` becomes processes with Azure ML's environment.

A launcher is a module with two functions and a constant; it starts nothing. To add one, write the file and
name it in :data:`LAUNCHERS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from worldsize.running.starting.processes import Call, Process

LAUNCHERS = {"none": "plain", "pytorch": "pytorch", "tensorflow": "tensorflow", "mpi": "mpi"}


class Launcher(Protocol):
    """What a launcher module offers.

    ``VARIABLES`` are those that it sets for each process, and that nobody else can give a meaning to.
    """

    VARIABLES: frozenset[str]

    def ports_needed(self, call: Call) -> int:
        """How many free ports the processes want to listen on."""

    def processes(self, call: Call, ports: Sequence[str]) -> Iterable[Process]:
        """The processes in rank order; ``ports`` are as many as were asked for."""


def find(name: str) -> Launcher:
    """The launcher of a ``distribution.type`` in lower case; ``none`` where there is no distribution."""
    return cast("Launcher", importlib.import_module(f"{__name__}.{LAUNCHERS[name]}"))

"""What a run may emulate on this machine, as values and functions that `worldsize.lab` provides."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from worldsize.base.problem import Problem
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Call
from worldsize.running.model.task import Task

Say = Callable[[str], None]  # tells the user


class Network(NamedTuple):
    """The network between the instances of a step, as Azure has it."""

    title: str  # such as "InfiniBand of `Standard_ND96asr_v4`"
    gbps: float  # of each instance


Networks = Mapping[str, Network]  # by step, where the VM size is known


# The call with addresses and command prefixes of its instances, which end with the context.
Place = Callable[[Call], AbstractContextManager[Call]]


class Faults(Protocol):
    """Injects faults into the steps of one run."""

    @property
    def restarts(self) -> Mapping[str, int]:
        """How many restarts the faults of each step need."""

    def tick(self, attempts: Collection[Any]) -> None:
        """Inject the faults that are due into the attempts that hold slots."""

    def report(self) -> Iterable[str]:
        """What came of the faults, as lines."""


class Emulation(Struct, frozen=True):
    """What to emulate; by default nothing."""

    place: Place = contextlib.nullcontext  # by default every instance is this machine
    preview: Callable[[Call], Call] = lambda call: call  # the call as a dry run shows it
    notices: tuple[str, ...] = ()
    make_faults: Callable[[Say], Faults] | None = None


Emulate = Callable[[RunOptions, Mapping[str, Task], Networks], tuple[Emulation, list[Problem]]]

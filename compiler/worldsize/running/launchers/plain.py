"""A command without ``distribution``: one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worldsize.running.starting.processes import Call, Process

VARIABLES: frozenset[str] = frozenset()


def ports_needed(_call: Call) -> int:
    """None: the process talks to nobody."""
    return 0


def processes(call: Call, _ports: Sequence[str]) -> Iterator[Process]:
    """The one process."""
    from worldsize.running.starting.processes import place  # noqa: PLC0415 - it imports the launchers

    yield place(call, 0, {})

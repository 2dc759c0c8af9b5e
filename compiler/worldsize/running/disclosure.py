"""What of a process may be written down: only what we set, and of that nothing that looks like a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from worldsize.running.processes import Process, every

HIDDEN = "***"
_SECRET = re.compile(
    r"KEY|TOKEN(?!S|IZ)|SECRET|PASSW|PWD$|CREDENTIAL|CONNECTION_STRING|SAS$|_SAS_|AUTH|COOKIE", re.IGNORECASE
)


def masked(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables, with the values of those hidden whose name says that they are secret."""
    return {name: HIDDEN if _SECRET.search(name) else value for name, value in environment.items()}


def listed(plan: Iterable[Process]) -> list[dict[str, Any]]:
    """All processes of a plan for the event log."""
    return [shown(process) for process in every(plan)]


def shown(process: Process) -> dict[str, Any]:
    """A process as plain data for the event log."""
    return {
        "name": process.name,
        "rank": process.rank,
        "local_rank": process.local_rank,
        "node": process.node,
        "argv": list(process.argv),
        "env": masked(process.env),
    }

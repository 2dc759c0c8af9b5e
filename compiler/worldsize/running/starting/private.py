"""What the guard is asked to start, and the folder that a launcher and its ranks share while they run."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worldsize.running.starting import scratch
from worldsize.running.starting.processes import Process
from worldsize.running.supervising.guard import REPORTS

MEMORY = Path("/dev/shm")  # noqa: S108 - shared memory belongs there; the folder in it is ours alone


PREFIX = "worldsize-mpi-"


def folder() -> contextlib.AbstractContextManager[Path]:
    """A folder that lasts as long as the context, in memory where there is such a place.

    Raises:
        OSError: It cannot be made.
    """
    return scratch.folder(PREFIX, _memory())


def sweep() -> list[Path]:
    """Remove the folders of runs of which nothing is left; what was removed."""
    return scratch.sweep(PREFIX, _memory())


def _memory() -> Path | None:
    return MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else None


def request(process: Process, known: Sequence[Process], logs: Path, shared: Path | None) -> dict[str, Any]:
    """One process of the plan as the guard is told to start it.

    Args:
        process: One that is started here.
        known: All processes, by the index under which the guard and the members speak of them.
        logs: The folder for ``<name>.log`` of each.
        shared: What :func:`folder` made; not None where the process has members.
    """
    env = dict(process.env)
    if shared is not None:
        env = {**dict.fromkeys(process.private_folder, str(shared)), **env}
    if process.members:
        assert shared is not None
        env["WORLDSIZE_MEMBERS"] = members(process, known, logs, shared)
    return {
        "index": known.index(process),
        "argv": process.argv,
        "env": env,
        "log": str(logs / f"{process.name}.log"),
        "serves": process.serves,
        "launches": bool(process.members),
    }


def members(process: Process, known: Sequence[Process], logs: Path, shared: Path) -> str:
    """The plan of a launcher's ranks for their parents; of the variables what differs from the launcher's."""
    ranks = [
        {
            "index": known.index(each),
            "env": {name: value for name, value in each.env.items() if process.env.get(name) != value},
            "log": str(logs / f"{each.name}.log"),
        }
        for each in process.members
    ]
    table = {"reports": str(shared / REPORTS), "rank": process.rank_variable, "members": ranks}
    return json.dumps(table)

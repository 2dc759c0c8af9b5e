"""What of a process may be written down: only what we set, and of that nothing that looks like a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from worldsize.running.starting.processes import Process, every
from worldsize.running.starting.sources import Source, Text

HIDDEN = "***"
_SECRET = re.compile(
    r"KEY|TOKEN(?!S|IZ)|SECRET|PASSW|PWD$|CREDENTIAL|CONNECTION_STRING|SAS$|_SAS_|AUTH|COOKIE", re.IGNORECASE
)


_SHORTEST = 4  # characters of a secret that is looked for inside of commands; shorter ones stand everywhere


def masked(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables, or inputs, with the values of those hidden whose name says that they are secret."""
    return {name: HIDDEN if _SECRET.search(name) else value for name, value in environment.items()}


def command(process: Process) -> list[str]:
    """What a process is started with, without the secrets among its variables; inputs are variables too."""
    values = {value for name, value in process.env.items() if _SECRET.search(name)}
    secrets = sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True)
    words = list(process.argv)
    for secret in secrets:
        words = [word.replace(secret, HIDDEN) for word in words]
    return words


def parameters(inputs: Mapping[str, Source | None], longest: int) -> dict[str, str]:
    """The inputs that are texts, cut where they are long, for records that others can read."""
    texts = {name: source.rendered for name, source in inputs.items() if isinstance(source, Text)}
    return {name: text[:longest] for name, text in masked(texts).items()}


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
        "argv": command(process),
        "env": masked(process.env),
    }

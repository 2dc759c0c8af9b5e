"""Running a pipeline here: real process groups, Azure ML's environment, nothing left behind.

The packages follow a run. ``preparing`` turns what the user named into tasks, with the ``graph`` of its
steps, their ``environments``, and the ``nodes`` that are emulated. The schedule finds out who is next, and
what ``reuse`` spares. ``starting`` decides as plain data what would be started, with the ``launchers``;
``supervising`` starts and watches it. ``recovering`` deals with what goes wrong, ``recording`` keeps and
``showing`` tells.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldsize.running.api import dry_run, run
    from worldsize.running.errors import RunError
    from worldsize.running.options import RunOptions
    from worldsize.running.recovering.resuming import ResumeError, resume
    from worldsize.running.results import Failure, Registration, RunResult, StepResult

__all__ = [
    "Failure",
    "Registration",
    "ResumeError",
    "RunError",
    "RunOptions",
    "RunResult",
    "StepResult",
    "dry_run",
    "resume",
    "run",
]

_HOMES = {
    "dry_run": "api",
    "run": "api",
    "RunError": "errors",
    "RunOptions": "options",
    "Failure": "results",
    "Registration": "results",
    "RunResult": "results",
    "StepResult": "results",
    "ResumeError": "recovering.resuming",
    "resume": "recovering.resuming",
}


def __getattr__(name: str) -> Any:
    """Import the module behind a public name on first use: commands that only look at runs need few."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

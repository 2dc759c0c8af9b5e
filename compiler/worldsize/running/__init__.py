"""Running a pipeline here: real process groups, Azure ML's environment, nothing left behind.

What would be started is decided first, as plain data (:mod:`~worldsize.running.processes`), and only then
started and watched (:mod:`~worldsize.running.schedule`, :mod:`~worldsize.running.supervise`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldsize.running.api import dry_run, run
    from worldsize.running.errors import RunError
    from worldsize.running.options import RunOptions
    from worldsize.running.results import Failure, Registration, RunResult, StepResult
    from worldsize.running.resuming import ResumeError, resume

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
    "ResumeError": "resuming",
    "resume": "resuming",
}


def __getattr__(name: str) -> Any:
    """Import the module behind a public name on first use: commands that only look at runs need few."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

"""Runs a pipeline on this machine: real process groups, Azure ML's environment, nothing left behind.

The packages are layers; each imports only itself and those before it. ``model`` is plain data. ``launch``
starts and supervises processes, in ``environments``. ``prepare`` turns what the user named into tasks.
``record`` stores what happens, and ``reuse`` finds the outputs of earlier runs. ``engine`` runs the tasks and
detects hangs, ``show`` informs the user, and ``api`` combines them. Emulated machines and injected faults are
handed to a run by ``worldsize.lab``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldsize.running.api import dry_run, resume, run
    from worldsize.running.model.errors import ResumeError, RunError
    from worldsize.running.model.options import RunOptions
    from worldsize.running.model.results import Failure, Registration, RunResult, StepResult

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
    "RunError": "model.errors",
    "RunOptions": "model.options",
    "Failure": "model.results",
    "Registration": "model.results",
    "RunResult": "model.results",
    "StepResult": "model.results",
    "ResumeError": "model.errors",
    "resume": "api",
}


def __getattr__(name: str) -> Any:
    """Import the module behind a public name on first use: commands that only look at runs need few."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

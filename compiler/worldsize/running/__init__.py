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

_NAMES = {
    "api": ("dry_run", "resume", "run"),
    "model.errors": ("ResumeError", "RunError"),
    "model.options": ("RunOptions",),
    "model.results": ("Failure", "Registration", "RunResult", "StepResult"),
}


def __getattr__(name: str) -> Any:
    """Import the module behind a public name on first use: commands that only look at runs need few."""
    for module, names in _NAMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

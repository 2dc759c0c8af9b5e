"""Running a pipeline here: real process groups, Azure ML's environment, nothing left behind.

What would be started is decided first, as plain data (:mod:`~worldsize.running.processes`), and only then
started and watched (:mod:`~worldsize.running.schedule`, :mod:`~worldsize.running.supervise`).
"""

from __future__ import annotations

from worldsize.running.api import dry_run, run
from worldsize.running.errors import RunError
from worldsize.running.options import RunOptions
from worldsize.running.results import Failure, Registration, RunResult, StepResult

__all__ = ["Failure", "Registration", "RunError", "RunOptions", "RunResult", "StepResult", "dry_run", "run"]

"""Whether the programs that start the ranks are on this machine, asked before anything is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from worldsize.azureml import distribution
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.launchers.mpi import PROGRAM
from worldsize.running.tasks import Task

INSTALL = (
    "`pip install 'worldsize[mpi]'`, or the system's package (Debian, Ubuntu: `apt install openmpi-bin`)"
)


def missing(job: Job, tasks: Mapping[str, Task]) -> list[Problem]:
    """A problem for each program that a step needs and that is not here, at the step that needs it first."""
    problems: dict[str, Problem] = {}
    for task in tasks.values():
        if task.launcher != "mpi":
            continue
        message = fault(search_path(task))
        if message is not None:
            text = f"step `{task.name}` is distributed with `mpi`, but {message}"
            problems.setdefault(message, Problem("run-refused", _place(job, task), text, INSTALL))
    return list(problems.values())


def search_path(task: Task) -> str:
    """PATH as the step's processes will have it."""
    own = task.environment_variables.get("PATH")
    return own or os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def fault(path: str) -> str | None:
    """What is wrong with ``mpirun``: it is not there, does not start, or is another MPI's."""
    found = shutil.which(PROGRAM, path=path)
    if found is None:
        return f"there is no `{PROGRAM}` on this machine"
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"`{found}` does not start: {getattr(error, 'strerror', None) or 'it does not answer'}"
    if said.returncode != 0:
        first = (said.stderr.strip() or said.stdout.strip()).partition("\n")[0][:80]
        return f"`{found} --version` ends with exit status {said.returncode}" + (
            f": {first}" if first else ""
        )
    if "Open MPI" not in said.stdout and "OpenRTE" not in said.stdout:
        return f"`{found}` is not Open MPI, whose variables Azure ML's jobs read"
    return None


def _place(job: Job, task: Task) -> Span:
    given = task.step.distribution if task.step is not None else None
    kind = distribution.member(given or task.component.distribution, "type")
    return (kind.span if kind else None) or task.span or Span(str(job.path or "pipeline"), 1, 1, 1, 1)

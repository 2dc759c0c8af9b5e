"""Whether this machine has what the steps need: Python packages of built-in components, and ``mpirun``."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from worldsize import resources
from worldsize.azureml import distribution
from worldsize.azureml.model import Job
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.running.launch.mpi import PROGRAM
from worldsize.running.model.task import Task

# The modules that each extra of the package brings; pyproject.toml has their versions.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "run": ("matplotlib", "mlflow", "numpy", "pandas", "PIL", "psutil", "pyarrow", "sklearn", "torch"),
    "tensorflow": ("tensorflow",),
    "deepspeed": ("deepspeed",),
}
LONGEST_LIST = 4
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
_LARGEST = 1 << 20  # bytes of a script that are read

INSTALL = (
    "`pip install 'worldsize[mpi]'`, or the system's package (Debian, Ubuntu: `apt install openmpi-bin`)"
)


def find_missing_packages(tasks: Mapping[str, Task], code: Mapping[str, Snapshot]) -> list[Problem]:
    """One problem for all packages that built-in components import and this Python lacks.

    A script of the user's own is not judged: it may import what it can do without.
    """
    absent = {
        module: extra
        for extra, modules in EXTRAS.items()
        for module in modules
        if importlib.util.find_spec(module) is None
    }
    if not absent:
        return []
    shared = {folder.name for folder in (resources.components() / "_shared").iterdir() if folder.is_dir()}
    needed: dict[str, list[str]] = {}
    for name, snapshot in code.items():
        if any(file.partition("/")[0] in shared for file in snapshot.files):
            needed[name] = sorted(set(_imported(snapshot)) & absent.keys())
    steps = [name for name, modules in needed.items() if modules]
    if not steps:
        return []
    modules = sorted({module for imported in needed.values() for module in imported})
    extras = ",".join(extra for extra in EXTRAS if extra in {absent[module] for module in modules})
    message = f"step `{steps[0]}` imports {_listed(modules)}, which this Python does not have"
    if len(steps) > 1:
        message = f"steps {_listed(steps)} import {_listed(modules)}, which this Python does not have"
    span = tasks[steps[0]].span or Span("pipeline", 1, 1, 1, 1)
    return [Problem("run-refused", span, message, f"run `pip install 'worldsize[{extras}]'`")]


def _imported(snapshot: Snapshot) -> Iterator[str]:
    for name in snapshot.files:
        if name.endswith(".py"):
            yield from _IMPORT.findall(snapshot.content(name, _LARGEST).decode("utf-8", "replace"))


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > LONGEST_LIST:
        quoted = [*quoted[: LONGEST_LIST - 1], f"{len(quoted) - LONGEST_LIST + 1} more"]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


def find_missing_programs(job: Job, tasks: Mapping[str, Task]) -> list[Problem]:
    """A problem for each program that a step needs and that is not here, at the step that needs it first."""
    problems: dict[str, Problem] = {}
    for task in tasks.values():
        if task.launcher != "mpi":
            continue
        message = find_mpi_fault(search_path(task))
        if message is not None:
            text = f"step `{task.name}` is distributed with `mpi`, but {message}"
            problems.setdefault(message, Problem("run-refused", _distribution_span(job, task), text, INSTALL))
    return list(problems.values())


def search_path(task: Task) -> str:
    """PATH as the step's processes will have it."""
    own = task.environment_variables.get("PATH")
    return own or os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def find_mpi_fault(path: str) -> str | None:
    """What is wrong with ``mpirun``: it is not there, does not start, or is another MPI's."""
    program = shutil.which(PROGRAM, path=path)
    if program is None:
        return f"there is no `{PROGRAM}` on this machine"
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"`{program}` does not start: {getattr(error, 'strerror', None) or 'it does not answer'}"
    if said.returncode != 0:
        first = (said.stderr.strip() or said.stdout.strip()).partition("\n")[0][:80]
        return f"`{program} --version` ends with exit status {said.returncode}" + (
            f": {first}" if first else ""
        )
    if "Open MPI" not in said.stdout and "OpenRTE" not in said.stdout:
        return f"`{program}` is not Open MPI, whose variables Azure ML's jobs read"
    return None


def _distribution_span(job: Job, task: Task) -> Span:
    distributed = task.step.distribution if task.step is not None else None
    kind = distribution.read_member(distributed or task.component.distribution, "type")
    return (kind.span if kind else None) or task.span or Span(str(job.path or "pipeline"), 1, 1, 1, 1)

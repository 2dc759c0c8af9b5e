"""What this machine offers, GPUs by nvidia-smi or else cores, to steps that were planned for GPUs.

A training component stops where its planned GPUs are missing. Only a run on a machine without GPUs may go
without them, and says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from worldsize.azureml import literals
from worldsize.azureml.model import Job
from worldsize.facts import vm_sizes
from worldsize.rules.context import Context
from worldsize.rules.script._nccl import find_nccl_calls
from worldsize.rules.script._program import find_programs
from worldsize.running.model.source import Text
from worldsize.running.model.task import Task

GPUS, SIZE, PRECISION = "planned_gpus_per_instance", "planned_instance_type", "precision"


@dataclass(frozen=True, slots=True)
class Machine:
    """Slots for processes: one a GPU where there are any, else one a core."""

    cores: int
    gpus: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them

    @property
    def slots(self) -> int:
        """How many training processes run at full speed side by side."""
        return len(self.gpus) or self.cores

    @property
    def unit(self) -> str:
        """What a slot is, in the singular."""
        return "GPU" if self.gpus else "core"


def detect_machine() -> Machine:
    """Look at the machine; CUDA_VISIBLE_DEVICES and the CPU affinity are respected."""
    return Machine(_cores(), _gpus())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _gpus() -> tuple[str, ...]:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = [name.strip() for name in chosen.split(",")]
        return tuple(name for name in names if name and name != "-1")
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        listing = subprocess.run(
            [program, "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):  # a driver that does not answer drives no GPU
        return ()
    return tuple(word for word in listing.stdout.split() if word.isdigit())


def fit_devices(
    tasks: Mapping[str, Task], sizes: Mapping[str, str], machine: Machine
) -> tuple[dict[str, Task], list[str]]:
    """Fit the planned GPUs of tasks whose processes were fitted already.

    Args:
        tasks: By name.
        sizes: By step the name of its VM size, where it is known.
        machine: What there is.

    Returns:
        The tasks, and what to say about it, a line a step.
    """
    fitted, notices = {}, []
    for name, task in tasks.items():
        fitted[name] = task
        size = sizes.get(name) or _input_text(task, SIZE)
        told = literals.parse_number(_input_text(task, GPUS)) or 0
        if told > 0:
            here = min(told, _gpus_of_instance(task), len(machine.gpus)) if machine.gpus else 0
            fitted[name] = replace(task, inputs={**task.inputs, GPUS: Text(here)})
        known = vm_sizes.lookup(size) if size else None
        planned = told or (known.gpus if known is not None else 0)
        if planned and not machine.gpus:
            notices.append(_describe_devices(task, planned, size))
    return fitted, notices


def warn_of_nccl(job: Job, roots: Sequence[Path], machine: Machine) -> list[str]:
    """Name the scripts of a job that will stop here, because NCCL moves data between GPUs only.

    Args:
        job: What runs.
        roots: Folders whose scripts may be read.
        machine: What there is.
    """
    if machine.gpus:
        return []
    context = Context(roots[0], tuple(roots[1:]))
    notices = []
    for program in find_programs(context, job):
        for module, call in find_nccl_calls(program):
            where = f"{Path(module.source.path).name}:{call.lineno}"
            notices.append(
                f"{program.launch.step.name}: `{where}` asks for NCCL, which moves data between GPUs,"
                " and this machine has none; use `gloo` where `torch.cuda.is_available()` is false"
            )
    return notices


def _gpus_of_instance(task: Task) -> int:
    """GPUs of an instance that the processes there are given."""
    return task.process_count_per_instance if task.worker_count is None else task.gpus_per_process


def _describe_devices(task: Task, planned: float, size: str | None) -> str:
    gpus = f"{planned:g} GPU{'s' * (planned > 1)} an instance" + (f" (`{size}`)" if size else "")
    said = f"{task.name}: planned for {gpus}, running on CPUs here"
    precision = _input_text(task, PRECISION)
    if precision == "fp16":
        return f"{said}, in fp16 if they have it; `--set {task.name}.{PRECISION}=fp32` runs it in fp32"
    return f"{said}, in bf16 as planned" if precision == "bf16" else said


def _input_text(task: Task, name: str) -> str | None:
    source = task.inputs.get(name)
    return source.rendered if isinstance(source, Text) else None

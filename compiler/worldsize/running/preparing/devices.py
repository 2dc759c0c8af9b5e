"""Tells steps that were planned for GPUs what this machine has instead, and the user what that changes.

A training component stops where its planned GPUs are missing. Only a run on a machine without GPUs may go
without them, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from worldsize.azureml import literals
from worldsize.azureml.model import Job
from worldsize.facts import vm_sizes
from worldsize.rules.context import Context
from worldsize.rules.script._nccl import find_nccl_calls
from worldsize.rules.script._program import find_programs
from worldsize.running.preparing.machine import Machine
from worldsize.running.starting.sources import Text
from worldsize.running.tasks import Task

GPUS, SIZE, PRECISION = "planned_gpus_per_instance", "planned_instance_type", "precision"


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
        size = sizes.get(name) or _text(task, SIZE)
        told = literals.number(_text(task, GPUS)) or 0
        if told > 0:
            here = min(told, _given(task), len(machine.gpus)) if machine.gpus else 0
            fitted[name] = replace(task, inputs={**task.inputs, GPUS: Text(here)})
        known = vm_sizes.lookup(size) if size else None
        planned = told or (known.gpus if known is not None else 0)
        if planned and not machine.gpus:
            notices.append(_said(task, planned, size))
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
            place = f"{Path(module.source.path).name}:{call.lineno}"
            notices.append(
                f"{program.launch.step.name}: `{place}` asks for NCCL, which moves data between GPUs,"
                " and this machine has none; use `gloo` where `torch.cuda.is_available()` is false"
            )
    return notices


def _given(task: Task) -> int:
    """GPUs of an instance that the processes there are given."""
    return task.process_count_per_instance if task.worker_count is None else task.gpus_per_process


def _said(task: Task, planned: float, size: str | None) -> str:
    gpus = f"{planned:g} GPU{'s' * (planned > 1)} an instance" + (f" (`{size}`)" if size else "")
    said = f"{task.name}: planned for {gpus}, running on CPUs here"
    precision = _text(task, PRECISION)
    if precision == "fp16":
        return f"{said}, in fp16 if they have it; `--set {task.name}.{PRECISION}=fp32` runs it in fp32"
    return f"{said}, in bf16 as planned" if precision == "bf16" else said


def _text(task: Task, name: str) -> str | None:
    source = task.inputs.get(name)
    return source.rendered if isinstance(source, Text) else None

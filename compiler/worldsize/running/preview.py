"""A dry run: every process with its command and the variables we set, without making or starting any."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from worldsize.running import calls, inputs, processes
from worldsize.running.disclosure import masked
from worldsize.running.folder import RunFolder
from worldsize.running.machine import Machine
from worldsize.running.processes import Process
from worldsize.running.tasks import Task
from worldsize.running.tracking import variables

RUN = RunFolder(Path("{runs}/{id}"))  # what is only known when the run starts stands in braces
PORT = "{port}"


def plan(tasks: Mapping[str, Task], machine: Machine, experiment: str) -> dict[str, tuple[Process, ...]]:
    """The processes of every step, with placeholders for ports, the run's folder and MLflow's ids."""
    return {name: _processes(task, machine, experiment) for name, task in tasks.items()}


def _processes(task: Task, machine: Machine, experiment: str) -> tuple[Process, ...]:
    call = calls.of(
        task,
        RUN,
        inputs.resolve(task, RUN, _shown),
        experiment=experiment,
        tracking=variables("{mlflow}", experiment, "{experiment id}", "{mlflow run}"),
        cores=machine.cores,
    )
    wanted = processes.ports_needed(call)
    return processes.plan(call, [PORT if wanted == 1 else f"{{port {number}}}" for number in range(wanted)])


def render(plans: Mapping[str, tuple[Process, ...]]) -> str:
    """The plan as text: per step the working folder, what all processes share, then each process."""
    return "\n".join(line for step, plan in plans.items() for line in _step(step, plan))


def _step(step: str, plan: tuple[Process, ...]) -> Iterator[str]:
    first = plan[0].env
    common = {
        name: value
        for name, value in first.items()
        if len(plan) > 1 and all(process.env.get(name) == value for process in plan)
    }
    yield f"step {step}: {len(plan)} process{'es' if len(plan) > 1 else ''} in {RUN.step(step).code}"
    if common:
        yield "  every rank"
        yield from _environment(common)
    for process in plan:
        yield f"  {process.name} (node {process.node}, local rank {process.local_rank})"
        yield from _environment({name: value for name, value in process.env.items() if name not in common})
        yield f"    $ {shlex.join(process.argv)}"
    yield ""


def _environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(masked(environment).items()):
        yield f"    {name}={value if value.startswith('{') else shlex.quote(value)}"


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative

"""A dry run: every process with its command and the variables we set, without making or starting any."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from worldsize.running.preparing.machine import Machine
from worldsize.running.recording import disclosure
from worldsize.running.recording.folder import RunFolder
from worldsize.running.recording.tracking import variables
from worldsize.running.starting import calls, inputs, processes
from worldsize.running.starting.processes import Call, Process
from worldsize.running.tasks import Task
from worldsize.secrecy.masking import Mask

RUN = RunFolder(Path("{runs}/{id}"))  # what is only known when the run starts stands in braces
PORT = "{port}"
FOLDER = "{private folder}"


def plan(
    tasks: Mapping[str, Task],
    machine: Machine,
    experiment: str,
    placed: Callable[[Call], Call] = lambda call: call,
    mask: Mask | None = None,
) -> dict[str, tuple[Process, ...]]:
    """The processes of every step as they may be seen, with placeholders for what is not known yet.

    Args:
        tasks: The steps.
        machine: What there is.
        experiment: The experiment's name.
        placed: Gives a call the places of its instances.
        mask: Hides secrets.
    """
    return {
        name: _processes(task, machine, experiment, placed, mask or Mask()) for name, task in tasks.items()
    }


def _processes(
    task: Task, machine: Machine, experiment: str, placed: Callable[[Call], Call], mask: Mask
) -> tuple[Process, ...]:
    values = inputs.resolve(task, RUN, _shown)
    call = calls.of(
        task,
        RUN,
        values,
        experiment=experiment,
        tracking=variables("{mlflow}", experiment, "{experiment id}", "{mlflow run}"),
        cores=machine.cores,
    )
    disclosed = disclosure.of_step(task, call, values, mask)
    plan = processes.plan(placed(call), ports(processes.ports_needed(call)))
    return tuple(map(disclosed.process, plan))


def ports(count: int) -> list[str]:
    """Placeholders for ports that are only reserved when the run starts."""
    return [PORT] if count == 1 else [f"{{port {number}}}" for number in range(count)]


def render(plans: Mapping[str, tuple[Process, ...]]) -> str:
    """The plan as text: per step the working folder, what all processes share, then each process."""
    return "\n".join(line for step, plan in plans.items() for line in _step(step, plan))


def _step(step: str, plan: tuple[Process, ...]) -> Iterator[str]:
    ranks = [process for process in processes.every(plan) if not process.members]
    common = {
        name: value
        for name, value in ranks[0].env.items()
        if len(ranks) > 1 and all(process.env.get(name) == value for process in ranks)
    }
    yield f"step {step}: {len(ranks)} process{'es' if len(ranks) > 1 else ''} in {RUN.step(step).code}"
    for starter in (process for process in plan if process.members):
        yield f"  {starter.name}, which starts every rank"
        own = {name: value for name, value in starter.env.items() if ranks[0].env.get(name) != value}
        yield from _environment({**dict.fromkeys(starter.private_folder, FOLDER), **own})
        yield f"    $ {shlex.join(starter.argv)}"
    if common:
        yield "  every process" if any(process.serves for process in ranks) else "  every rank"
        yield from _environment(common)
    for process in ranks:
        served = ", ended when all others have" if process.serves else ""
        yield f"  {process.name} (node {process.node}, local rank {process.local_rank}{served})"
        yield from _environment({name: value for name, value in process.env.items() if name not in common})
        yield f"    $ {shlex.join(process.argv)}"
    yield ""


def _environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(Mask().named(environment).items()):
        yield f"    {name}={value if _is_placeholder(value) else shlex.quote(value)}"


def _is_placeholder(value: str) -> bool:
    return value.startswith("{") and '"' not in value  # which JSON has


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative

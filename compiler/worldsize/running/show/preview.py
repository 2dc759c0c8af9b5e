"""A dry run: every process with its command and variables, without starting any."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from worldsize.documents.secrecy.masking import Mask
from worldsize.running.launch.call import make_call, mlflow_variables, resolve_inputs
from worldsize.running.launch.launchers import count_ports, plan_processes
from worldsize.running.launch.machine import Machine
from worldsize.running.launch.redaction import make_redaction
from worldsize.running.model.folder import RunFolder, show_path
from worldsize.running.model.process import Call, Process, walk_processes
from worldsize.running.model.task import Task

RUN = RunFolder(Path("{runs}/{id}"))  # what is only known when the run starts is in braces
PORT = "{port}"
FOLDER = "{private folder}"
WIDTH = 100  # columns of a command that is longer than a line
_OPTION = re.compile(r" (?=--[A-Za-z])")


def preview_processes(
    tasks: Mapping[str, Task], machine: Machine, experiment: str, placed: Callable[[Call], Call], mask: Mask
) -> dict[str, tuple[Process, ...]]:
    """The processes of every step as they may be shown, with placeholders for what is not known yet."""
    plans = {}
    for name, task in tasks.items():
        values = resolve_inputs(task, RUN, show_path)
        call = make_call(
            task,
            RUN,
            values,
            experiment=experiment,
            tracking=mlflow_variables("{mlflow}", experiment, "{experiment id}", "{mlflow run}"),
            cores=machine.cores,
            on_cpu=not machine.gpus,
        )
        redaction = make_redaction(task, call, values, mask)
        plans[name] = tuple(map(redaction.process, plan_processes(placed(call), ports(count_ports(call)))))
    return plans


def ports(count: int) -> list[str]:
    """Placeholders for ports that are only reserved when the run starts."""
    return [PORT] if count == 1 else [f"{{port {number}}}" for number in range(count)]


def render_preview(plans: Mapping[str, tuple[Process, ...]]) -> str:
    """The plan as text: per step the working folder, what all processes share, then each process."""
    return "\n".join(line for step, plan in plans.items() for line in _render_step(step, plan))


def _render_step(step: str, plan: tuple[Process, ...]) -> Iterator[str]:
    ranks = [process for process in walk_processes(plan) if not process.members]
    common = {
        name: value
        for name, value in ranks[0].env.items()
        if len(ranks) > 1 and all(process.env.get(name) == value for process in ranks)
    }
    yield f"step {step}: {len(ranks)} process{'es' if len(ranks) > 1 else ''} in {RUN.step(step).code}"
    for starter in (process for process in plan if process.members):
        yield f"  {starter.name}, which starts every rank"
        variables = {name: value for name, value in starter.env.items() if ranks[0].env.get(name) != value}
        yield from _render_environment({**dict.fromkeys(starter.private_folder, FOLDER), **variables})
        yield from _render_command(starter.argv)
    same = ranks[0].argv if len(ranks) > 1 and all(rank.argv == ranks[0].argv for rank in ranks) else None
    if common or same:
        yield "  every process" if any(process.serves for process in ranks) else "  every rank"
        yield from _render_environment(common)
        yield from _render_command(same or ())
    for process in ranks:
        served = ", ended when all others have" if process.serves else ""
        yield f"  {process.name} (node {process.node}, local rank {process.local_rank}{served})"
        yield from _render_environment(dict(process.env.items() - common.items()))
        yield from _render_command(process.argv if same is None else ())
    yield ""


def _render_command(argv: Sequence[str]) -> Iterator[str]:
    """A command on lines of its own. What a shell gets is shown as the shell reads it, not quoted again."""
    if len(argv) > 2 and argv[-2] == "-c" and ("'" in argv[-1] or len(argv[-1]) > WIDTH):
        yield f"    $ {shlex.join(argv[:-1])}"
        yield from (f"        {line}" for line in _break_lines(argv[-1]))
    elif argv:
        first, *rest = _break_lines(shlex.join(argv))
        yield f"    $ {first}"
        yield from (f"        {line}" for line in rest)


def _break_lines(text: str) -> Iterator[str]:
    """The lines of a shell's text; long ones go on behind a backslash, broken before options."""
    for line in text.split("\n"):
        shown = ""
        for part in _OPTION.split(line):
            if shown and len(shown) + len(part) > WIDTH and not shown.count("'") % 2 and '"' not in shown:
                yield f"{shown} \\"
                shown = f"  {part}"
            else:
                shown = f"{shown} {part}" if shown else part
        yield shown


def _render_environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(Mask().named(environment).items()):
        placeholder = value.startswith("{") and '"' not in value  # which JSON has
        yield f"    {name}={value if placeholder else shlex.quote(value)}"

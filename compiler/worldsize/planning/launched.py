"""Processes that a launcher in a step's own command starts, such as ``torchrun``; Azure ML starts one."""

from __future__ import annotations

from typing import NamedTuple

from worldsize.azureml import binding, literals
from worldsize.azureml.command_launchers import (
    IN_ALL,
    MPI,
    PER_INSTANCE,
    TORCH,
    LauncherCall,
    count_processes,
    list_launcher_calls,
)
from worldsize.base.wording import plural
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.model import Notes, Topology
from worldsize.spec.model import Step, part_span


class Launched(NamedTuple):
    """What a launcher starts on each instance."""

    name: str
    processes: int | None  # None where the command says it by the plan, or not
    by_default: bool = False  # because the command does not say it


def read_launched(step: Step, size: VmSize | None, instances: int) -> Launched | None:
    """Read the launcher of a step's own command, or Ray in its script; None where that is unclear.

    MPI's launchers are not among them: Azure ML calls ``mpirun`` itself.
    """
    call = _find_call(step)
    if call is None:
        return None
    counts = count_processes(
        call,
        lambda text: _read_number(step, text),
        devices=size.devices if size is not None else None,
        instances=instances,
    )
    name = call.find_value(PER_INSTANCE if call.name in TORCH else (*PER_INSTANCE, *IN_ALL))
    planned = name is not None and _plan_quantity(step, name[1].bare) is not None
    return Launched(call.name, None if planned else counts.starts, name is None)


def check_launched(step: Step, topology: Topology, notes: Notes) -> None:
    """Report options of the launcher that take a quantity of the plan which is another number here."""
    call = _find_call(step) if topology.local_world_size is not None else None
    if call is None or step.command is None or topology.local_world_size is None:
        return
    here = {
        "instance_count": topology.instance_count,
        "local_world_size": topology.local_world_size,
        "world_size": topology.world_size,
        "process_count_per_instance": topology.process_count_per_instance,
        "gpus_per_instance": topology.gpus_per_instance,
        "data_parallel_size": topology.data_parallel_size,
    }
    in_all = ("num_processes",) if call.name == "accelerate launch" else ()
    for names, right in (
        (PER_INSTANCE, "local_world_size"),
        (in_all, "world_size"),
    ):
        for name in names:
            value = call.options.get(name, (None, None))[1]
            quantity = _plan_quantity(step, value.bare) if value is not None else None
            planned = here.get(quantity or "")
            if value is None or planned is None or planned == here[right]:
                continue
            if right == "local_world_size" and planned > (topology.gpus_per_instance or planned):
                continue  # more than there are GPUs, which a rule reports
            given = literals.render_literal(int(planned))
            message = f"`--{name}` is `{quantity}` of the plan, {given}, but {_needed(right, topology)}"
            span = part_span(step.command, value.start, value.end)
            notes.report("launcher-processes-disagree", span, message, f"write `${{{{plan.{right}}}}}`")


def _needed(quantity: str, topology: Topology) -> str:
    """What an option of a launcher has to be."""
    if quantity == "world_size":
        return f"{plural(topology.world_size, 'process')} start on all instances"
    return f"{plural(topology.local_world_size or 1, 'process')} start on each instance"


def _find_call(step: Step) -> LauncherCall | None:
    if step.command is None:
        return None
    calls = [call for call in list_launcher_calls(step.command.value) if call.name not in MPI]
    return calls[0] if len(calls) == 1 else None


def _read_number(step: Step, text: str) -> float | None:
    """The number of a word, also through an input of the step."""
    expression = binding.parse_expression(text)
    if expression is not None and expression.scope == "inputs":
        given = step.with_.get(expression.port or "")
        return literals.parse_number(given.value) if given is not None else None
    return literals.parse_number(text)


def _plan_quantity(step: Step, text: str) -> str | None:
    """The quantity of the plan that a word is, also through an input of the step."""
    expression = binding.parse_expression(text)
    if expression is not None and expression.scope == "inputs":
        given = step.with_.get(expression.port or "")
        expression = binding.parse_expression(given.value) if given is not None else None
    return expression.port if expression is not None and expression.scope == "plan" else None

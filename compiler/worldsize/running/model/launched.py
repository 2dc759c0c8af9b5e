"""Launchers inside a command, such as ``torchrun``, whose one process starts all others of an instance."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.azureml import binding, literals
from worldsize.azureml.command_launchers import MPI, LauncherCall, count_processes, list_launcher_calls
from worldsize.running.model.source import Source, Text


def find_launcher_call(command: str) -> LauncherCall | None:
    """The launcher that a command calls; None where there is none, or several."""
    calls = [call for call in list_launcher_calls(command) if call.name not in MPI]
    return calls[0] if len(calls) == 1 else None


def count_launched(command: str, inputs: Mapping[str, Source | None], instances: int) -> int:
    """The processes that each process of a step starts; 1 where there is no launcher or it does not say."""
    call = find_launcher_call(command)
    if call is None:
        return 1

    def read_number(text: str) -> float | None:
        expression = binding.parse_expression(text)
        if expression is None:
            return literals.parse_number(text)
        source = inputs.get(expression.port or "") if expression.scope == "inputs" else None
        return literals.parse_number(source.value) if isinstance(source, Text) else None

    return count_processes(call, read_number, devices=None, instances=instances).starts or 1

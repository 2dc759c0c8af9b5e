"""`CUDA_VISIBLE_DEVICES`, as the job or its command sets it for all processes."""

from __future__ import annotations

import re

from msgspec import Struct

from worldsize.azureml import fields
from worldsize.azureml.launch import Launch
from worldsize.base.span import Span

_NAME = "CUDA_VISIBLE_DEVICES"
_NUMBERS = re.compile(r"(?:-?\d+(?:,-?\d+)*)?")


class Visible(Struct):
    """How many GPUs the processes can see, and where that is written."""

    count: int
    span: Span


def find_visible_devices(launch: Launch) -> Visible | None:
    """None where it is not set, is set more than once, or is not a list of numbers."""
    entry = fields.read_entries(launch.step.environment_variables).get(_NAME)
    found = [(str(entry.value), entry.span)] if entry is not None else []
    for command in launch.commands:
        for name, value, word in command.assignments:
            if name == _NAME:
                found.append(
                    (value, launch.span(word) if _is_for_all(launch, command.words[0].text) else None)
                )
    if len(found) != 1 or found[0][1] is None:
        return None
    text, span = found[0][0].replace(" ", ""), found[0][1]
    if _NUMBERS.fullmatch(text) is None:
        return None
    numbers = [int(number) for number in text.split(",") if number]
    hidden = next((position for position, number in enumerate(numbers) if number < 0), len(numbers))
    return Visible(hidden, span)


def _is_for_all(launch: Launch, first: str) -> bool:
    return first == "export" or len(launch.commands) == 1

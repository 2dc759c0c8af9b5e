"""The inputs of `shard_data` about pictures and text, as far as a step has them as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worldsize.azureml.literals import parse_number
from worldsize.azureml.model import Step
from worldsize.planning.memory.workload import literal_inputs
from wssources.media_options import MediaOptions

_NUMBERS = ("vocabulary_size",)


def read_media(step: Step, folder: Path | None) -> MediaOptions | None:
    """Return the inputs about pictures and text; None where one is only known when the pipeline runs.

    Args:
        step: A step of a component; inputs that its component does not have keep their defaults.
        folder: Of the data.
    """
    declared = step.component.inputs if step.component is not None else {}
    names = tuple(name for name in MediaOptions._fields if name in declared)
    values: dict[str, Any] = {}
    for name, value in dict(literal_inputs(step, names)).items():
        if value is None and name not in step.inputs:
            continue
        if name not in _NUMBERS:
            if isinstance(value, bool) or not isinstance(value, str | int) or "${{" in str(value):
                return None
            values[name] = str(value)
        else:
            number = parse_number(value)
            values[name] = 0 if number is None else number
    return MediaOptions(**values, folder=folder)

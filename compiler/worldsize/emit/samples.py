"""The shape of what a training step reads, where the spec tells it before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.azureml import literals
from worldsize.azureml.model import Binding, Job, Literal, Step
from worldsize.emit import data_source
from worldsize.records import dataclass
from wsshards import builtin

BYTES = 256  # a language model reads and predicts bytes
_DIGITS = (1, 8, 8), 10  # scikit-learn's handwritten digits


@dataclass(frozen=True, slots=True)
class Samples:
    """``task`` is that of a manifest, ``shape`` one sample as the model gets it, ``outputs`` the classes."""

    task: str
    shape: tuple[int, ...]
    outputs: int


def of(job: Job, step: Step, *, text: bool) -> Samples | None:
    """What a training step reads; None where the data would have to be looked into.

    Args:
        job: the whole graph.
        step: the training step.
        text: whether its model reads nothing but text.
    """
    argument = step.inputs.get("shards")
    if argument is None or not isinstance(argument.value, Binding):
        return None
    source = job.steps.get(argument.value.expression.step or "")
    if source is None or not data_source.is_sharding(source.component):
        return None
    given = values(source, ("source", "format", "sequence_length"))
    if given["source"] == builtin.DIGITS:
        return None if text else Samples("classification", *_DIGITS)
    if not text and given["source"] != builtin.PYTHON_SOURCE and given["format"] != "text":
        return None
    length = literals.number(given["sequence_length"])
    if length is None or length < 1:
        return None
    return Samples("language_model", (int(length),), BYTES)


def values(step: Step, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Inputs as the step gives them, else the component's defaults; None where neither is a literal."""
    found: dict[str, Any] = dict.fromkeys(names)
    for name in names:
        given = step.inputs.get(name)
        port = step.component.inputs.get(name) if step.component is not None else None
        if given is not None:
            found[name] = given.value.value if isinstance(given.value, Literal) else None
        elif port is not None and port.default is not None:
            found[name] = port.default.value
    return found

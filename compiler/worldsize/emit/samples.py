"""The shape of what a training step reads, where the spec tells it before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.azureml.model import Binding, Data, Job, Literal, Step
from worldsize.azureml.references import exists, is_folder, local_path
from worldsize.emit import data_source
from wsshards import builtin

BYTES = 256  # a language model reads and predicts bytes
_DIGITS = (1, 8, 8), 10  # scikit-learn's handwritten digits


class Samples(Struct, frozen=True):
    """``task`` is that of a manifest, ``shape`` one sample as the model gets it, ``outputs`` the classes."""

    task: str
    shape: tuple[int, ...]
    outputs: int


def of(job: Job, step: Step, *, text: bool, folder: Path | None = None) -> Samples | None:
    """What a training step reads; None where the data would have to be looked into, or cannot be.

    Args:
        job: the whole graph.
        step: the training step.
        text: whether its model reads nothing but text.
        folder: the spec's, from which paths of small local tables start; left out, nothing is looked into.
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
        return _of_table(source, folder) if folder is not None else None
    length = literals.number(given["sequence_length"])
    if length is None or length < 1:
        return None
    return Samples("language_model", (int(length),), BYTES)


def _of_table(sharding: Step, folder: Path) -> Samples | None:
    argument = sharding.inputs.get("data")
    data = argument.value if argument is not None else None
    given = values(sharding, ("source", "format", "label", "features"))
    if not isinstance(data, Data) or data.path is None or not isinstance(data.path.value, str):
        return None
    base = local_path(data.path.value, folder)
    if base is None or not exists(base) or not isinstance(given["source"], str):
        return None
    from worldsize.emit import row_counts  # noqa: PLC0415 - its readers are for data that is no built-in set

    root = base / given["source"] if is_folder(base) else base
    features = [name.strip() for name in str(given["features"] or "").split(",") if name.strip()]
    found = row_counts.table_shape(root, str(given["format"]), str(given["label"]), features)
    return Samples("classification", (found[0],), found[1]) if found is not None else None


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

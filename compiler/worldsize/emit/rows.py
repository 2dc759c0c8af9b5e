"""How many training rows each training step will see, where that can be known before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.azureml import literals
from worldsize.azureml.model import Binding
from worldsize.azureml.references import exists, is_folder, local_path
from worldsize.emit.data_source import is_sharding
from worldsize.emit.work import Work
from wsshards import arithmetic, builtin


def count(work: Work) -> dict[str, int]:
    """Rows of the training split, by training step; steps whose data is unknown here are left out.

    Known are the built-in data sets, and small local files given to ``shard_data``. Its split holds out
    ``wsshards.arithmetic.validation_rows`` rows; where copies of one row sit on the boundary it may differ
    by those.

    Args:
        work: The spec with every input bound.
    """
    found: dict[str, int] = {}
    counted: dict[str, int | None] = {}
    for name, step in work.spec.steps.items():
        source = _source(work, name) if step.scale is not None else None
        if source is None:
            continue
        if source not in counted:
            counted[source] = _split(work, source)
        rows = counted[source]
        if rows is not None:
            found[name] = rows
    return found


def _source(work: Work, step: str) -> str | None:
    """The sharding step that a training step reads its shards from."""
    argument = work.arguments[step].get("shards")
    if argument is None or not isinstance(argument.value, Binding):
        return None
    source = argument.value.expression.step
    return source if source and is_sharding(work.components.get(source)) else None


def _split(work: Work, source: str) -> int | None:
    """Training rows that a sharding step writes, or None where they cannot be counted."""
    step, component = work.spec.steps[source], work.components[source]
    assert component is not None
    values: dict[str, Any] = {
        name: port.default.value for name, port in component.inputs.items() if port.default is not None
    }
    values |= {name: located.value for name, located in step.with_.items()}
    fraction = literals.number(values.get("validation_fraction"))
    length = literals.number(values.get("sequence_length"))
    if fraction is None or not 0 <= fraction < 1 or length is None or length < 1:
        return None
    per_class = _rows_per_class(work, values, int(length))
    if per_class is None:
        return None
    return sum(per_class) - arithmetic.validation_rows(per_class, float(fraction))


def _rows_per_class(work: Work, values: Mapping[str, Any], length: int) -> list[int] | None:
    source = values.get("source")
    if isinstance(source, str) and source in builtin.SOURCES:
        return list(builtin.rows_per_class(source, length))
    data = values.get("data")
    path = data.get("path") if isinstance(data, dict) else data
    if not isinstance(path, str) or not isinstance(source, str) or "${{" in source:
        return None
    base = local_path(path, work.folder)
    if base is None or not exists(base):
        return None
    root = base / source if is_folder(base) else base
    if not exists(root) or not work.files.readable_data(root):
        return None
    from worldsize.emit import row_counts  # noqa: PLC0415 - its readers are for data that is no built-in set

    return row_counts.per_class(root, str(values.get("format")), str(values.get("label")), length)

"""How many training rows each training step will see, where that can be known before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldsize.azureml import literals
from worldsize.azureml.model import Binding, Data, Step
from worldsize.azureml.references import exists, is_folder, local_path
from worldsize.planning.memory.workload import Samples, is_sharding, literal_inputs
from worldsize.resolving.state import ResolveState
from wssources import planned_rows
from wssources.formats import LABEL_FILE
from wssources.media_options import BYTES_TOKENIZER


def count_rows(state: ResolveState) -> dict[str, int]:
    """Rows of the training split, by training step; steps whose data is unknown here are left out.

    Known are the built-in data sets, and small local files given to ``shard_data``. Its split holds out
    ``wssources.planned_rows.validation_rows`` rows; where copies of one row sit on the boundary it may differ
    by those.
    """
    rows_by_step: dict[str, int] = {}
    counted: dict[str, int | None] = {}
    for name, step in state.spec.steps.items():
        source = _source(state, name) if step.scale is not None else None
        if source is None:
            continue
        if source not in counted:
            counted[source] = _split(state, source)
        rows = counted[source]
        if rows is not None:
            rows_by_step[name] = rows
    return rows_by_step


def _source(state: ResolveState, step: str) -> str | None:
    """The sharding step that a training step reads its shards from."""
    argument = state.arguments[step].get("shards")
    if argument is None or not isinstance(argument.value, Binding):
        return None
    source = argument.value.expression.step
    return source if source and is_sharding(state.components.get(source)) else None


def _split(state: ResolveState, source: str) -> int | None:
    """Training rows that a sharding step writes, or None where they cannot be counted."""
    step, component = state.spec.steps[source], state.components[source]
    assert component is not None
    values: dict[str, Any] = {
        name: port.default.value for name, port in component.inputs.items() if port.default is not None
    }
    values |= {name: located.value for name, located in step.with_.items()}
    fraction = literals.parse_number(values.get("validation_fraction"))
    length = literals.parse_number(values.get("sequence_length"))
    if fraction is None or not 0 <= fraction < 1 or length is None or length < 1:
        return None
    per_class = _rows_per_class(state, values, int(length))
    if not per_class or not any(per_class):  # unknown, or no rows at all, which a rule reports of the data
        return None
    return sum(per_class) - planned_rows.validation_rows(per_class, float(fraction))


def _rows_per_class(state: ResolveState, values: Mapping[str, Any], length: int) -> list[int] | None:
    source = values.get("source")
    if not isinstance(source, str) or not _are_countable(values):
        return None
    if source in planned_rows.SOURCES:
        return list(planned_rows.rows_per_class(source, length))
    data = values.get("data")
    path = data.get("path") if isinstance(data, dict) else data
    if not isinstance(path, str) or "${{" in source:
        return None
    base = local_path(path, state.folder)
    root = base / source if base is not None and is_folder(base) else base
    if root is None or not exists(root) or not state.files.readable_data(root):
        return None
    return _count_files(root, values, length)


def _count_files(root: Path, values: Mapping[str, Any], length: int) -> list[int] | None:
    from worldsize.resolving import row_counts  # its readers are for data that is no built-in set

    labels, counts = str(values.get("labels") or ""), None
    if labels or exists(root / LABEL_FILE):
        counts = row_counts.count_labelled_pictures(root, str(values.get("label")), labels)
    elif values.get("task") == "classification" and values.get("format") in ("auto", "text"):
        counts = row_counts.count_texts_per_class(root)
    if labels or counts is not None:
        return counts
    return row_counts.count_rows_per_class(root, str(values.get("format")), str(values.get("label")), length)


def _are_countable(values: Mapping[str, Any]) -> bool:
    """Whether rows are known before: not of packed tokens, nor where broken pictures are left out."""
    if values.get("broken_images") == "skip":
        return False
    documents = values.get("text") or values.get("tokenizer") not in (None, BYTES_TOKENIZER)
    return (
        not documents
        or values.get("task") == "classification"
        or (bool(values.get("text")) and values.get("task") in (None, "auto"))
    )


def read_table_samples(folder: Path, sharding: Step) -> Samples | None:
    """The samples of a small local table that a sharding step is given, relative to the spec's folder."""
    argument = sharding.inputs.get("data")
    data = argument.value if argument is not None else None
    values = literal_inputs(sharding, ("source", "format", "label", "features"))
    if not isinstance(data, Data) or data.path is None or not isinstance(data.path.value, str):
        return None
    base = local_path(data.path.value, folder)
    if base is None or not exists(base) or not isinstance(values["source"], str):
        return None
    from worldsize.resolving import row_counts  # as above

    root = base / values["source"] if is_folder(base) else base
    features = [name.strip() for name in str(values["features"] or "").split(",") if name.strip()]
    shape = row_counts.measure_table(root, str(values["format"]), str(values["label"]), features)
    return Samples("classification", (shape[0],), shape[1]) if shape is not None else None

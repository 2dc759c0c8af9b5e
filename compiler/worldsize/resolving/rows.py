"""How many training rows each training step will see, where that can be known before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import literals
from worldsize.azureml.references import exists, is_folder, local_path
from worldsize.data import TableCount
from worldsize.planning.memory.workload import Samples, is_sharding
from worldsize.planning.model import Derivation, Plan
from worldsize.resolving.state import ResolveState
from wsshards.errors import UserError
from wssources import planned_rows
from wssources.media_options import BYTES_TOKENIZER
from wssources.split_settings import INPUTS, make_split


def count_rows(state: ResolveState) -> dict[str, int]:
    """Rows of the training split, by training step; steps whose data is unknown here are left out.

    Known are the built-in data sets, and small local files given to ``shard_data``. Its split holds out
    ``wssources.planned_rows.validation_rows`` rows; where copies of one row sit on the boundary it may differ
    by those.
    """
    rows_by_step: dict[str, int] = {}
    counted: dict[str, TableCount | None] = {}
    for name, step in state.spec.steps.items():
        source = state.shards_of(name) if step.scale is not None else None
        if source is None or not is_sharding(state.components.get(source)):
            continue
        if source not in counted:
            counted[source] = _split(state, source)
        split = counted[source]
        if split is not None:
            rows_by_step[name] = split.rows
            if split.task:
                state.tasks[name] = split.task, split.reason
            if split.width and split.outputs:
                state.samples[source] = Samples(split.task, (split.width,), split.outputs)
    return rows_by_step


def explain_tasks(state: ResolveState, plan: Plan) -> Plan:
    """The plan with a line in each training step for the task that its data is for, and why."""
    steps = dict(plan.steps)
    for name, (task, reason) in state.tasks.items():
        if name in steps:
            line = Derivation("task", task, "", reason)
            steps[name] = replace(steps[name], derivations=(*steps[name].derivations, line))
    return replace(plan, steps=steps)


def _split(state: ResolveState, source: str) -> TableCount | None:
    """What a sharding step writes, or None where it cannot be counted."""
    step, component = state.spec.steps[source], state.components[source]
    assert component is not None
    values: dict[str, Any] = {"source": planned_rows.default_source(has_data="data" in step.with_)}
    values |= {
        name: port.default.value for name, port in component.inputs.items() if port.default is not None
    }
    values |= {name: located.value for name, located in step.with_.items()}
    length = literals.parse_number(values.get("sequence_length"))
    if length is None or length < 1:
        return None
    return _count(state, values, int(length))


def _count(state: ResolveState, values: Mapping[str, Any], length: int) -> TableCount | None:
    source = values.get("source")
    settings = {name: _plain(values[name]) for name in (*INPUTS, "seed") if values.get(name) is not None}
    if not isinstance(source, str) or not _are_countable(values):
        return None
    if source in planned_rows.SOURCES:
        return _count_built_in(source, settings, length)
    data = values.get("data")
    path = data.get("path") if isinstance(data, dict) else data
    if not isinstance(path, str) or "${{" in source:
        return None
    base = local_path(path, state.folder) or state.files.mapped_data(path)  # beside the spec, or mapped
    root = base / source if base is not None and is_folder(base) else base
    if root is None or not exists(root) or not state.files.readable_data(root):
        return None
    from worldsize.data import counts  # its readers are for data that is no built-in set

    return counts.count_split(root, {**values, **settings, "sequence_length": length})


def _count_built_in(source: str, settings: Mapping[str, Any], length: int) -> TableCount | None:
    try:
        split = make_split(settings)
    except UserError:  # a rule says it
        return None
    if split.columns or split.by_time or split.given:
        return None
    per_class = planned_rows.rows_per_class(source, length)
    return TableCount(planned_rows.divide_rows(per_class, split.validation, split.test)[0])


def _plain(value: Any) -> Any:
    """A number or text as the step gets it: text of a number as the number."""
    number = literals.parse_number(value) if not isinstance(value, bool) else None
    return value if number is None else number


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

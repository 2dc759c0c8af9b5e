"""The data of steps that shard it: where it lies, and whether the model can learn from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from worldsize.azureml.graph import follow_binding
from worldsize.azureml.model import Data, Field, Job, Literal, Step
from worldsize.azureml.references import exists, folder_of, local_path
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Problem
from worldsize.documents.yaml.nodes import Scalar
from worldsize.planning.memory.workload import find_sharding, literal_inputs
from wssources.planned_rows import DIGITS, PYTHON_SOURCE

MAX_FILES = 20_000  # names in a folder; of more nothing is said


def may_read_data(job: Job, step: Step) -> bool:
    """Whether a step may read local data, or data with an address."""
    source = step.inputs.get("source")
    value = source.value.value if source is not None and isinstance(source.value, Literal) else None
    return "://" in str(value) or find_data_path(job, step) is not None


def find_data_path(job: Job, step: Step) -> Field[Any] | None:
    """The path of the step's data, also where the pipeline has it as an input."""
    argument = follow_binding(job, step.inputs.get("data"))
    if argument is None:
        return None
    if isinstance(argument.value, Data):
        return argument.value.path
    return (
        Field(argument.value.value, argument.span, node=argument.node)
        if isinstance(argument.value, Literal)
        else None
    )


def find_local_data(context: Tree, path: Field[Any]) -> Path | None:
    """Where data lies in the tree: beside its file, or where the project maps data of the workspace to."""
    if not isinstance(path.node, Scalar) or not isinstance(path.value, str):
        return None
    local = local_path(path.value, folder_of(path.node)) or context.files.mapped_data(path.value)
    return local if local is not None and context.inside(local) and exists(local) else None


_TABLE, _PICTURES, _TEXT = "a table", "pictures", "text"
_BUILT_IN = {DIGITS: _PICTURES, PYTHON_SOURCE: _TEXT}
_FORMATS = {"csv": _TABLE, "parquet": _TABLE, "jsonl": _TABLE, "images": _PICTURES, "text": _TEXT}
_LEARNS = {"mlp": (_TABLE, _PICTURES), "cnn": (_PICTURES,), "gpt": (_TEXT,)}
_SHAPES = {"mlp": "numbers", "cnn": "pictures", "gpt": "text"}
_BEST = {_TABLE: "mlp", _PICTURES: "cnn", _TEXT: "gpt"}
_INPUTS = ("source", "format", "task", "text", "labels")


def check_model_not_for_data(context: Tree, job: Job) -> Iterator[Problem]:
    for step in job.steps.values():
        model, source = step.inputs.get("model"), find_sharding(job, step)
        name = model.value.value if model is not None and isinstance(model.value, Literal) else None
        if name not in _LEARNS or model is None or model.span is None or source is None:
            continue
        kind = _find_kind(context, job, source)
        if kind and kind not in _LEARNS[name]:
            message = f"model `{name}` takes {_SHAPES[name]}, but step `{source.name}` shards {kind}"
            yield Problem("model-not-for-data", model.span, message, f"write `model: {_BEST[kind]}`")


def _find_kind(context: Tree, job: Job, step: Step) -> str:
    """The kind of data that a step shards; empty if unknown."""
    values = literal_inputs(step, _INPUTS)
    if any(values[name] is None and name in step.inputs for name in _INPUTS):
        return ""  # bound to what is only known when the pipeline runs
    if values["source"] in _BUILT_IN:
        return _BUILT_IN[values["source"]]
    if values["text"] or values["task"] == "language_model":
        return _TEXT
    if values["labels"] or values["format"] != "auto":
        return _PICTURES if values["labels"] else _FORMATS.get(str(values["format"]), "")
    return _detect(context, job, step, values)


def _detect(context: Tree, job: Job, step: Step, values: Mapping[str, Any]) -> str:
    path = find_data_path(job, step)
    local = find_local_data(context, path) if path is not None else None
    if local is None:
        return ""
    from wsshards.errors import UserError  # few steps leave the format of local data to be found out
    from wssources.find_files import choose_files, find_files

    try:
        root, files = find_files(str(values["source"]), str(local), MAX_FILES)
        kind, _ = choose_files(root, files, "auto", "")
    except UserError:  # another rule reports it
        return ""
    return _FORMATS.get(kind, "") if context.inside(root) else ""

"""Where the data of a step lies that shards it; no reader of tables or pictures is imported for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worldsize.azureml.graph import follow_binding
from worldsize.azureml.model import Data, Field, Job, Literal, Step
from worldsize.azureml.references import exists, folder_of, local_path
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context

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


def find_local_data(context: Context, path: Field[Any]) -> Path | None:
    """Where data lies in the tree: beside its file, or where the project maps data of the workspace to."""
    if not isinstance(path.node, Scalar) or not isinstance(path.value, str):
        return None
    local = local_path(path.value, folder_of(path.node)) or context.files.mapped_data(path.value)
    return local if local is not None and context.inside(local) and exists(local) else None

"""Where the data of a step lies that shards it; no reader of tables or pictures is imported for that."""

from __future__ import annotations

from typing import Any

from worldsize.azureml.model import Binding, Data, Field, Job, Literal, Step

MAX_FILES = 20_000  # names in a folder; of more nothing is said


def may_read_data(job: Job, step: Step) -> bool:
    """Whether a step may read local data, or data with an address."""
    source = step.inputs.get("source")
    value = source.value.value if source is not None and isinstance(source.value, Literal) else None
    return "://" in str(value) or find_data_path(job, step) is not None


def find_data_path(job: Job, step: Step) -> Field[Any] | None:
    """The path of the step's data, also where the pipeline has it as an input."""
    argument = step.inputs.get("data")
    if argument is not None and isinstance(argument.value, Binding) and job.interface is None:
        expression = argument.value.expression
        argument = job.inputs.get(expression.port or "") if expression.scope == "parent.inputs" else None
    if argument is None:
        return None
    if isinstance(argument.value, Data):
        return argument.value.path
    return (
        Field(argument.value.value, argument.span, node=argument.node)
        if isinstance(argument.value, Literal)
        else None
    )

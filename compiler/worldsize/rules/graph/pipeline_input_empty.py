"""A step is bound to a pipeline input that is empty text."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job, Literal
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import find_wires, span_of


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    if job.interface is not None:
        return
    empty = {
        name: field
        for name, field in job.inputs.items()
        if isinstance(field.value, Literal) and field.value.value == ""
    }
    if not empty:
        return
    for wire in find_wires(context, job):
        name = wire.expression.port or ""
        if wire.expression.scope == "parent.inputs" and name in empty:
            message = f"`{name}` is empty, so Azure ML drops it, but step `{wire.step.name}` is bound to it"
            related = (Related(wire.part(2), "bound here"),)
            help_ = "give it a value, or remove it with its bindings"
            yield Finding(span_of(empty.pop(name)), message, help_, related=related)

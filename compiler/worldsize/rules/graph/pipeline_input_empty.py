"""An input of the pipeline is an empty text, and a step is bound to it.

Azure ML drops empty values before it submits the job, and the binding then names nothing.

Why: The job is refused, or the step runs without the input.

Bad::

    tag: ""

Good::

    tag: none

Fix: Give a value, or remove the input and its bindings.

Source: azure-ai-ml, which drops empty inputs of a pipeline job.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job, Literal
from worldsize.base.problem import Problem, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import span_of, wires
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS618",
    "pipeline-input-empty",
    "error",
    since="0.1.0",
    summary="an empty text as a pipeline input that a step takes",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    if job.interface is not None:
        return
    empty = {
        name: field
        for name, field in job.inputs.items()
        if isinstance(field.value, Literal) and field.value.value == ""
    }
    if not empty:
        return
    for wire in wires(job):
        name = wire.expression.port or ""
        if wire.expression.scope == "parent.inputs" and name in empty:
            message = f"`{name}` is empty, so Azure ML drops it, and step `{wire.step.name}` is bound to it"
            related = (Related(wire.part(2), "bound here"),)
            help_ = "give it a value, or remove it with its bindings"
            yield RULE.problem(span_of(empty.pop(name)), message, help_, related=related)

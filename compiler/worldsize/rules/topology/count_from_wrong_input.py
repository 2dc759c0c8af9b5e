"""A count is bound to a pipeline input that is not a positive whole number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worldsize.azureml import binding, fields, graph, literals
from worldsize.azureml.model import Field, Job, Literal, Step
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context

_COUNTS = ("process_count_per_instance", "worker_count", "instance_count", "max_instance_count")


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for step in job.steps.values():
        if not graph.is_inline(step):  # a count of an inline job takes no binding at all
            yield from _step(job, step)


def _step(job: Job, step: Step) -> Iterator[Finding]:
    for block in (step.distribution, step.resources):
        for name in _COUNTS:
            field = fields.read_member(block, name)
            expression = binding.parse_expression(field.value) if field is not None else None
            if (
                field is None
                or field.span is None
                or expression is None
                or expression.scope != "parent.inputs"
            ):
                continue
            port = expression.port or ""
            fault, related = _fault(job, port)
            if fault:
                message = f"`{name}` is bound to `{port}`, which {fault}"
                help_ = f"give `{port}` a whole number of at least 1"
                yield Finding(field.span, message, help_, related=related)


def _fault(job: Job, port: str) -> tuple[str, tuple[Related, ...]]:
    if job.interface is not None:
        declared = job.interface.inputs.get(port)
        if declared is None:
            return "the pipeline does not have", ()
        wrong = declared.type not in ("integer", "number")
        return (f"is an input of type `{declared.type}`" if wrong else ""), ()
    source: Field[Any] | None = job.inputs.get(port)
    if source is None:
        return "the pipeline does not have", ()
    related = (Related(source.span, "given here"),) if source.span else ()
    if not isinstance(source.value, Literal):
        return "is data", related
    number = literals.parse_number(source.value.value)
    whole = number is not None and number == int(number) and number >= 1
    return ("" if whole else f"is `{source.value.value}`"), related

"""A count is bound to a pipeline input that is no whole number of at least 1.

The nodes of a pipeline may take their counts from its inputs.

Why: The job is refused when it is submitted, with a message that names neither the input nor the count.

Bad::

    processes: four

Good::

    processes: 4

Fix: Give the input a whole number, or bind the count to another input.

Source: Microsoft Learn, CLI (v2) pipeline job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worldsize.azureml import binding, distribution, graph, literals
from worldsize.azureml.model import Field, Job, Literal, Step
from worldsize.base.problem import Problem, Related
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS214",
    "count-from-wrong-input",
    "error",
    since="0.1.0",
    summary="a count bound to an input that is no whole number",
)


_COUNTS = ("process_count_per_instance", "worker_count", "instance_count", "max_instance_count")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    if job.raw is None:
        return
    for step in job.steps.values():
        if not graph.is_inline(step):  # a count of an inline job takes no binding at all
            yield from _step(job, step)


def _step(job: Job, step: Step) -> Iterator[Problem]:
    for block in (step.distribution, step.resources):
        for name in _COUNTS:
            field = distribution.member(block, name)
            found = binding.whole(field.value) if field is not None else None
            if field is None or field.span is None or found is None or found.scope != "parent.inputs":
                continue
            port = found.port or ""
            fault, related = _fault(job, port)
            if fault:
                message = f"`{name}` is bound to `{port}`, which {fault}"
                help_ = f"give `{port}` a whole number of at least 1"
                yield RULE.problem(field.span, message, help_, related=related)


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
    number = literals.number(source.value.value)
    whole = number is not None and number == int(number) and number >= 1
    return ("" if whole else f"is `{source.value.value}`"), related

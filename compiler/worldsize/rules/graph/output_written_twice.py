"""Two steps write the same pipeline output."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related
from worldsize.base.span import Span
from worldsize.rules.context import Context
from worldsize.rules.graph._common import span_of


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    written: dict[str, tuple[str, Span]] = {}
    for step in job.steps.values():
        for field in step.outputs.values():
            bound = field.value.binding
            if bound is None or bound.value.scope != "parent.outputs" or bound.value.port is None:
                continue
            name, span = bound.value.port, span_of(bound)
            if name not in written:
                written[name] = (step.name, span)
                continue
            first, place = written[name]
            message = f"`{step.name}` writes the pipeline's output `{name}`, which `{first}` writes already"
            help_ = "declare a second output under `outputs:` of the pipeline"
            yield Finding(span, message, help_, related=(Related(place, "written here first"),))

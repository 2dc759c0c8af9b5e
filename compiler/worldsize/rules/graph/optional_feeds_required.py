"""An optional input of a pipeline component feeds a required input of a step."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declared_component, find_wires


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    if job.interface is None:
        return
    for wire in find_wires(context, job):
        outer = job.interface.inputs.get(wire.expression.port or "")
        inner = wire.port
        if wire.expression.scope != "parent.inputs" or outer is None or inner is None:
            continue
        if declared_component(wire.step) is None or not outer.optional or outer.default is not None:
            continue
        if not inner.optional and inner.default is None:
            message = (
                f"`{outer.name}` is optional, but input `{wire.name}` of step `{wire.step.name}` is required"
            )
            help_ = f"remove `optional: true` from `{outer.name}`, or add it to the step's `{wire.name}`"
            related = (Related(outer.span, "declared optional here"),) if outer.span else ()
            yield Finding(wire.part(2), message, help_, related=related)

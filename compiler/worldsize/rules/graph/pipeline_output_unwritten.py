"""No step writes a declared output of a pipeline component."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    if job.interface is None:
        return
    bindings = (field.value.binding for step in job.steps.values() for field in step.outputs.values())
    written = {bound.value.port for bound in bindings if bound is not None}
    for port in job.interface.outputs.values():
        if port.name not in written:
            message = f"no step writes the output `{port.name}`"
            help_ = f"write `${{{{parent.outputs.{port.name}}}}}` behind the output of the step that makes it"
            yield Finding(port.span or NOWHERE, message, help_)

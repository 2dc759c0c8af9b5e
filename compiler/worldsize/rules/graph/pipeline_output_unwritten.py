"""A pipeline component declares an output that no step in it writes.

The output of a pipeline component is bound by a step inside: ``${{parent.outputs.NAME}}``.

Why: Whoever reads the output finds nothing, after everything before it was paid for.

Bad::

    model: {mode: upload}

Good::

    model: ${{parent.outputs.model}}

Fix: Bind an output of a step to it, or remove it.

Source: Microsoft Learn, CLI (v2) pipeline job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE, is_native
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS629",
    "pipeline-output-unwritten",
    "error",
    since="0.1.0",
    summary="an output of a pipeline component that no step writes",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    if job.interface is None or not is_native(job):
        return
    bindings = (field.value.binding for step in job.steps.values() for field in step.outputs.values())
    written = {bound.value.port for bound in bindings if bound is not None}
    for port in job.interface.outputs.values():
        if port.name not in written:
            message = f"no step writes the output `{port.name}`"
            help_ = f"write `${{{{parent.outputs.{port.name}}}}}` behind the output of the step that makes it"
            yield RULE.problem(port.span or NOWHERE, message, help_)

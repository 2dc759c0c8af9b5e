"""An optional input of a pipeline component feeds an input that a step requires.

Without a value the outer input is absent, and the inner one has nothing to take.

Why: Azure ML refuses the component as soon as a pipeline leaves the input out.

Bad::

    data: {type: uri_folder, optional: true}

Good::

    data: {type: uri_folder}

Fix: Remove ``optional: true``, or make the inner input optional.

Source: Microsoft Learn, CLI (v2) pipeline job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declares, wires
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS617",
    "optional-feeds-required",
    "error",
    since="0.1.0",
    summary="an optional input of a pipeline component that feeds a required one",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    if job.interface is None:
        return
    for wire in wires(job):
        outer = job.interface.inputs.get(wire.expression.port or "")
        inner = wire.port
        if wire.expression.scope != "parent.inputs" or outer is None or inner is None:
            continue
        if declares(wire.step) is None or not outer.optional or outer.default is not None:
            continue
        if not inner.optional and inner.default is None:
            message = f"`{outer.name}` is optional, but step `{wire.step.name}` requires `{wire.name}`"
            help_ = f"remove `optional: true` from `{outer.name}`, or make the inner `{wire.name}` optional"
            related = (Related(outer.span, "declared optional here"),) if outer.span else ()
            yield RULE.problem(wire.part(2), message, help_, related=related)

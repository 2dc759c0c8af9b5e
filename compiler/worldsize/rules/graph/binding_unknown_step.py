"""A binding names a step that does not exist.

The caret is under the name inside the expression.

Why: The pipeline is refused at submission.

Bad::

    shards: "${{parent.jobs.prepar.outputs.shards}}"

Good::

    shards: "${{parent.jobs.prepare.outputs.shards}}"

Fix: Correct the name of the step.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.base.suggest import did_you_mean
from worldsize.rules.context import Context
from worldsize.rules.graph._common import nearest, wires
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS622", "binding-unknown-step", "error", since="0.1.0", summary="a binding to a step that does not exist"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for wire in wires(job):
        step = wire.expression.step
        if step is not None and step not in job.steps:
            own = wire.step.name  # a step cannot mean itself
            span, help_ = wire.part(2), did_you_mean(step, job.steps, but=own)
            fix = nearest(span, step, job.steps, but=own)
            yield RULE.problem(span, f"there is no step `{step}`", help_, fix=fix)

"""``with:`` gives an input that the component does not declare.

The message names the component and the help the nearest input.

Why: Azure ML refuses the step; a misspelt optional input would otherwise keep its default.

Bad::

    sed: 1

Good::

    seed: 1

Fix: Correct the name, or remove the line.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.base.suggest import did_you_mean
from worldsize.rules.context import Context
from worldsize.rules.graph._common import declares, is_native, known, nearest, port_finder, span_of
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS612", "input-unknown", "error", since="0.1.0", summary="an input that the component does not have"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    if not is_native(job):
        return
    for step in job.steps.values():
        component = declares(step)
        names = known(step, "inputs")
        if component is None or names is None:
            continue
        has = port_finder(names)
        for name, field in step.inputs.items():
            if not has(name):
                of = f"`{component.path.name}`" if component.path else f"the component of step `{step.name}`"
                help_ = did_you_mean(name, names) or (
                    "remove it, or declare it there" if names else "it declares no inputs"
                )
                span = field.key_span or span_of(field)
                fix = nearest(span, name, names)
                yield RULE.problem(span, f"{of} has no input `{name}`", help_, fix=fix)

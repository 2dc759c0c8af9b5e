"""A binding names a step that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.base.suggest import did_you_mean
from worldsize.rules.context import Context
from worldsize.rules.graph._common import find_wires, suggest_fix


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for wire in find_wires(context, job):
        step = wire.expression.step
        if step is not None and step not in job.steps:
            step_name = wire.step.name  # a step cannot mean itself
            span, help_ = wire.part(2), did_you_mean(step, job.steps, but=step_name)
            help_ = help_ or "write the name of another step under `jobs:`"
            fix = suggest_fix(span, step, job.steps, but=step_name)
            yield Finding(span, f"there is no step `{step}`", help_, fix=fix)

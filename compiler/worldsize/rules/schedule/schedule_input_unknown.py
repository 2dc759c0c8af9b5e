"""A schedule gives an input that its pipeline does not have.

azure-ai-ml merges the schedule's inputs into the pipeline's without looking.

Why: The value goes nowhere: every run uses the pipeline's own value.

Bad::

    learning_rat: 0.2

Good::

    learning_rate: 0.2

Fix: Correct the name, or declare the input in the pipeline.

Source: Microsoft Learn, CLI (v2) schedule YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.schedule import JobSchedule
from worldsize.base.problem import Fix, Problem
from worldsize.base.suggest import closest, did_you_mean
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS684",
    "schedule-input-unknown",
    "error",
    since="0.1.0",
    summary="an input that the scheduled pipeline does not have",
)


@RULE.checks(JobSchedule)
def check(context: Context, schedule: JobSchedule) -> Iterator[Problem]:
    job, given = schedule.job, schedule.inputs
    if job is None or given is None or job.type != "pipeline":
        return
    for key, _ in given.entries:
        if key.text not in job.inputs:
            near = closest(key.text, job.inputs)
            help_ = did_you_mean(key.text, job.inputs) or "the pipeline has no inputs"
            message = f"the scheduled pipeline has no input `{key.text}`"
            yield RULE.problem(key.span, message, help_, fix=Fix(key.span, near) if near else None)

"""A schedule sets an input that its pipeline does not have."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.job import JobSchedule
from worldsize.base.problem import Finding, Fix
from worldsize.base.suggest import closest, did_you_mean
from worldsize.rules.context import Context


def check_job_schedule(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    job, inputs = schedule.job, schedule.inputs
    if job is None or inputs is None or job.type != "pipeline":
        return
    for key, _ in inputs.entries:
        if key.text not in job.inputs:
            near = closest(key.text, job.inputs)
            help_ = did_you_mean(key.text, job.inputs) or "the pipeline has no inputs"
            message = f"the scheduled pipeline has no input `{key.text}`"
            yield Finding(key.span, message, help_, fix=Fix(key.span, near, safe=False) if near else None)

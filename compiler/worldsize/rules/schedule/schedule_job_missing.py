"""A schedule refers to a job file that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import references
from worldsize.azureml.job import JobSchedule
from worldsize.azureml.references import is_file
from worldsize.base.problem import Finding
from worldsize.rules.context import Context


def check_job_schedule(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    reference, target = schedule.reference, schedule.target
    if reference is None or target is None or reference.span is None:
        return
    if context.inside(target) and not is_file(target):
        key = "`create_job`" if schedule.create_job is not None else "`import_data`"
        yield references.describe_missing(key, reference.value, target, reference.span)

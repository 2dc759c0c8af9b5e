"""A schedule keeps the version of data that was the latest when it was created."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.job import JobSchedule
from worldsize.azureml.model import Argument, Data, Field, Job
from worldsize.base.problem import Finding
from worldsize.base.wording import shorten
from worldsize.rules.context import Context

if TYPE_CHECKING:
    from worldsize.resolving.planned import Planned

_HELP = "create the schedule again after each new version, or name a datastore path that gets the new data"
_LABEL = re.compile(r"azureml:[^/@\s]+@\w+")


def check_planned(context: Context, planned: Planned) -> Iterator[Finding]:
    del context
    if planned.plan is not None and planned.spec.schedule is not None:
        yield from _find_labels(planned.job)


def check_job_schedule(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    del context
    if schedule.job is not None:
        yield from _find_labels(schedule.job)


def _find_labels(job: Job) -> Iterator[Finding]:
    fields: list[Field[Argument]] = [*job.inputs.values()]
    fields += [field for step in job.steps.values() for field in step.inputs.values()]
    for value in (field.value for field in fields):
        path = value.path if isinstance(value, Data) else None
        if path is None or path.span is None or not _LABEL.fullmatch(str(path.value)):
            continue
        shown = shorten(str(path.value), 60)
        message = f"the schedule keeps the version that `{shown}` is when the schedule is created"
        yield Finding(path.span, message, _HELP)

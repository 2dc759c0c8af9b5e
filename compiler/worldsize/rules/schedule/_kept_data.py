"""Data of a schedule that stays as it is when the schedule is created: a label's version, or all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.job import JobSchedule
from worldsize.azureml.model import Argument, Data, Field, Job, Literal
from worldsize.azureml.references import classify
from worldsize.base.problem import Problem, Related
from worldsize.base.wording import shorten
from worldsize.rules.context import Context
from worldsize.rules.schedule.schedule_reuses_everything import is_forced

if TYPE_CHECKING:
    from worldsize.resolving.planned import Planned

_LABEL = re.compile(r"azureml:[^/@\s]+@\w+")
_PINNED = re.compile(r"azureml:[^/@:\s]+:[\w.-]+")
_NEW_LABEL = (
    "create the schedule again after each new version, or name a datastore path that gets the new data"
)
_NEW_DATA = "name a datastore path that gets the new data: `azureml://datastores/workspaceblobstore/paths/…`"


def check_planned(context: Context, planned: Planned) -> Iterator[Problem]:
    del context
    schedule = planned.spec.schedule
    if planned.plan is not None and schedule is not None:
        yield from _find_labels(planned.job)
        # The schedule of a spec repeats all steps.
        yield from _find_same_rows(planned.job, Related(schedule.span, "the schedule"))


def check_job_schedule(context: Context, schedule: JobSchedule) -> Iterator[Problem]:
    del context
    if schedule.job is not None:
        yield from _find_labels(schedule.job)
        if schedule.inputs is None and is_forced(schedule, schedule.job):
            yield from _find_same_rows(schedule.job)


def _list_fields(job: Job) -> list[Field[Argument]]:
    return [*job.inputs.values(), *(field for step in job.steps.values() for field in step.inputs.values())]


def _find_labels(job: Job) -> Iterator[Problem]:
    for value in (field.value for field in _list_fields(job)):
        path = value.path if isinstance(value, Data) else None
        if path is not None and path.span is not None and _LABEL.fullmatch(str(path.value)):
            shown = shorten(str(path.value), 60)
            message = f"the schedule keeps the version that `{shown}` is when the schedule is created"
            yield Problem("schedule-keeps-version", path.span, message, _NEW_LABEL)


def _find_same_rows(job: Job, *related: Related) -> Iterator[Problem]:
    fields = _list_fields(job)
    reasons = [_explain_kept(field.value) for field in fields]
    if "" in reasons:
        return
    for field, reason in zip(fields, reasons, strict=True):
        path = field.value.path if isinstance(field.value, Data) else None
        if reason and path is not None and path.span is not None:
            shown = shorten(str(path.value), 60)
            message = f"each run of the schedule trains on the same rows: `{shown}` {reason}"
            yield Problem("schedule-repeats-data", path.span, message, _NEW_DATA, related)
            return


def _explain_kept(argument: Argument) -> str | None:
    """Why data never changes; empty where it may, None where an argument is not data."""
    if isinstance(argument, Literal):
        is_reference = isinstance(argument.value, str) and classify(argument.value) in ("asset", "web")
        return "" if is_reference else None
    if not isinstance(argument, Data):
        return None
    text = str(argument.path.value) if argument.path is not None else ""
    if text and "${{" not in text and classify(text) == "local":
        return "is uploaded when the schedule is created"
    return "is one version" if _PINNED.fullmatch(text) else ""

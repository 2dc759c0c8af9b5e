"""The job file that a schedule names does not exist.

The path is relative to the schedule's file.

Why: The schedule cannot be made.

Bad::

    create_job: ./pipelin.yml

Good::

    create_job: ./pipeline.yml

Fix: Correct the path.

Source: Microsoft Learn, CLI (v2) schedule YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import snapshot
from worldsize.azureml.references import is_file
from worldsize.azureml.schedule import JobSchedule
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS683",
    "schedule-job-missing",
    "error",
    since="0.1.0",
    summary="a schedule of a job file that does not exist",
)


@RULE.checks(JobSchedule)
def check(context: Context, schedule: JobSchedule) -> Iterator[Problem]:
    reference, target = schedule.reference, schedule.target
    if reference is None or target is None or reference.span is None:
        return
    if context.inside(target) and not is_file(target):
        found = snapshot.report_missing(RULE.slug, "`create_job`", reference.value, target, reference.span)
        yield found

"""`create_job` has no `type`."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.job import JobSchedule
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Mapping
from worldsize.rules.context import Context


def check_job_schedule(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    create_job = schedule.create_job
    key = schedule.raw.key("create_job")
    if isinstance(create_job, Mapping) and "type" not in create_job and key is not None:
        yield Finding(key.span, "`create_job` has no `type`", "add `type: pipeline`")

"""A schedule starts a job that is not a pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import fields
from worldsize.azureml.job import JobSchedule
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Mapping
from worldsize.rules.context import Context


def check_job_schedule(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    create_job, reference, job = schedule.create_job, schedule.reference, schedule.job
    kind = fields.read_field(create_job, "type") if isinstance(create_job, Mapping) else None
    if kind is not None and isinstance(kind.value, str) and kind.value.lower() in ("command", "spark"):
        if kind.span is not None:
            message = f"a schedule starts only pipelines, not jobs of type `{kind.value}`"
            yield Finding(kind.span, message, "put the job into a pipeline of one step, and schedule that")
    elif job is not None and job.type != "pipeline" and reference is not None and reference.span is not None:
        message = f"a schedule starts only pipelines, but `{reference.value}` is a {job.type} job"
        yield Finding(reference.span, message, "put the job into a pipeline of one step, and schedule that")

"""The job that a schedule starts: its file, its type and its inputs."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import fields, references
from worldsize.azureml.job import JobSchedule
from worldsize.azureml.references import is_file
from worldsize.base.problem import Finding, Fix
from worldsize.base.suggest import closest, did_you_mean
from worldsize.documents.yaml.nodes import Mapping
from worldsize.rules.context import Context


def check_schedule_needs_pipeline(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    create_job, reference, job = schedule.create_job, schedule.reference, schedule.job
    kind = fields.read_field(create_job, "type") if isinstance(create_job, Mapping) else None
    if kind is not None and isinstance(kind.value, str) and kind.value.lower() in ("command", "spark"):
        if kind.span is not None:
            message = f"a schedule starts only pipelines, not jobs of type `{kind.value}`"
            yield Finding(kind.span, message, "put the job into a pipeline of one step, and schedule that")
    elif job is not None and job.type != "pipeline" and reference is not None and reference.span is not None:
        message = f"a schedule starts only pipelines, but `{reference.value}` is a {job.type} job"
        yield Finding(reference.span, message, "put the job into a pipeline of one step, and schedule that")


def check_schedule_job_missing(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    reference, target = schedule.reference, schedule.target
    if reference is None or target is None or reference.span is None:
        return
    if context.inside(target) and not is_file(target):
        key = "`create_job`" if schedule.create_job is not None else "`import_data`"
        yield references.describe_missing(key, reference.value, target, reference.span)


def check_schedule_input_unknown(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    job, inputs = schedule.job, schedule.inputs
    if job is None or inputs is None or job.type != "pipeline":
        return
    for key, _ in inputs.entries:
        if key.text not in job.inputs:
            near = closest(key.text, job.inputs)
            help_ = did_you_mean(key.text, job.inputs) or "the pipeline has no inputs"
            message = f"the scheduled pipeline has no input `{key.text}`"
            yield Finding(key.span, message, help_, fix=Fix(key.span, near, safe=False) if near else None)


def check_create_job_without_type(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    create_job = schedule.create_job
    key = schedule.raw.key("create_job")
    if isinstance(create_job, Mapping) and "type" not in create_job and key is not None:
        yield Finding(key.span, "`create_job` has no `type`", "add `type: pipeline`")

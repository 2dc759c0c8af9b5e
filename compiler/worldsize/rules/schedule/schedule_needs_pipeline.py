"""A schedule starts a job that is no pipeline.

azure-ai-ml refuses command, sweep and Spark jobs here when it sends the schedule, naming the class and
not the file.

Why: The schedule cannot be made.

Bad::

    create_job: ./train.yml

Good::

    create_job: ./pipeline.yml

Fix: Put the job into a pipeline of one step, and schedule that.

Source: Microsoft Learn, CLI (v2) schedule YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import fields
from worldsize.azureml.schedule import JobSchedule
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping

RULE = Rule(
    "WS682",
    "schedule-needs-pipeline",
    "error",
    since="0.1.0",
    summary="a schedule of something else than a pipeline",
)


@RULE.checks(JobSchedule)
def check(context: Context, schedule: JobSchedule) -> Iterator[Problem]:
    made, reference, job = schedule.create_job, schedule.reference, schedule.job
    kind = fields.read_field(made, "type") if isinstance(made, Mapping) else None
    if kind is not None and isinstance(kind.value, str) and kind.value.lower() in ("command", "spark"):
        if kind.span is not None:
            message = f"a schedule starts pipelines only, not jobs of type `{kind.value}`"
            yield RULE.problem(
                kind.span, message, "put the job into a pipeline of one step, and schedule that"
            )
    elif job is not None and job.type != "pipeline" and reference is not None and reference.span is not None:
        message = f"a schedule starts pipelines only, and `{reference.value}` is a {job.type} job"
        yield RULE.problem(
            reference.span, message, "put the job into a pipeline of one step, and schedule that"
        )

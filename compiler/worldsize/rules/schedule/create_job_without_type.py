"""`create_job` is a mapping without `type`.

Azure ML's schedule schema asks for `type: pipeline`; the client guesses it where it is missing.

Why: Another client, or the next version of this one, refuses the schedule.

Bad::

    job: ./pipeline.yml

Good::

    type: pipeline

Fix: Add `type: pipeline`.

Source: Microsoft Learn, CLI (v2) schedule YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.schedule import JobSchedule
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping

RULE = Rule(
    "WS686", "create-job-without-type", "warning", since="0.1.0", summary="a scheduled job without its type"
)


@RULE.checks(JobSchedule)
def check(context: Context, schedule: JobSchedule) -> Iterator[Problem]:
    made = schedule.create_job
    key = schedule.raw.key("create_job")
    if isinstance(made, Mapping) and "type" not in made and key is not None:
        yield RULE.problem(key.span, "`create_job` has no `type`", "add `type: pipeline`")

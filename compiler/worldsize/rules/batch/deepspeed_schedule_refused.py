"""The `scheduler` of the DeepSpeed configuration has a name or parameters that do not exist, or lacks one.

Names and parameters are those of DeepSpeed's classes; of torch's only the names are checked.

Why: Every rank stops with a type error after the model was loaded.

Bad::

    "type": "WarmupDecayLR",
    "params": {"warmup_steps": 100}

Good::

    "type": "WarmupDecayLR",
    "params": {"warmup_num_steps": 100, "total_num_steps": 5000}

Fix: Write what the help says.

Source: DeepSpeed 0.19.8, `deepspeed/runtime/lr_schedules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS349",
    "deepspeed-schedule-refused",
    "error",
    since="0.1.0",
    summary="a schedule that cannot be made",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "schedule")

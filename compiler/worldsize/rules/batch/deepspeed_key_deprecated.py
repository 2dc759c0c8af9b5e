"""A key of the DeepSpeed configuration was replaced by another.

Why: It works until it is removed; together with its successor it is refused.

Bad::

    "cpu_offload": true

Good::

    "offload_optimizer": {"device": "cpu"}

Fix: Write the new key.

Source: DeepSpeed 0.19.8, `deepspeed/runtime/config.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS346",
    "deepspeed-key-deprecated",
    "warning",
    since="0.1.0",
    summary="a DeepSpeed key that was renamed",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "deprecated")

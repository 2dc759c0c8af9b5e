"""A loss scale of the DeepSpeed configuration is negative, infinite or 0 where that means nothing.

0 is a dynamic scale. Its window and its floor are above 0.

Why: Newer versions of DeepSpeed refuse it; older ones divide by zero or turn every gradient into NaN.

Bad::

    "loss_scale": -1

Good::

    "loss_scale": 0

Fix: Write a number that the help names, or remove the key.

Source: deepspeedai/DeepSpeed, issue 7852 and pull request 8050.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS344",
    "deepspeed-loss-scale-invalid",
    "error",
    since="0.1.0",
    summary="a loss scale that a scale cannot have",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "loss-scale")

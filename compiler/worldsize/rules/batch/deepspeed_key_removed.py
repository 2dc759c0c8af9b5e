"""A key of the DeepSpeed configuration belongs to a feature that newer versions of DeepSpeed no longer have.

DeepSpeed 0.19.8 stops at the key. It is a warning, as an older version may be pinned.

Why: The job stops at its start once DeepSpeed is updated.

Bad::

    "elasticity": {"enabled": true, "max_train_batch_size": 2000}

Good::

    "zero_optimization": {"stage": 2}

Fix: Remove the block, or pin the older version.

Source: deepspeedai/DeepSpeed, issue 8489.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS347",
    "deepspeed-key-removed",
    "warning",
    since="0.1.0",
    summary="a DeepSpeed key whose feature was removed",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "removed")

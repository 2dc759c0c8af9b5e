"""A key of the DeepSpeed configuration is none that DeepSpeed looks up there.

It is nearly one of the block, or belongs to another block. Where our own component trains, every unknown
key is told.

Why: The setting is not made, and nothing says so.

Bad::

    "zero_optimisation": {"stage": 1}

Good::

    "zero_optimization": {"stage": 1}

Fix: Write the key of the help, or move it where it belongs.

Source: DeepSpeed, configuration JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS311",
    "deepspeed-key-unknown",
    "warning",
    since="0.1.0",
    summary="a key of the DeepSpeed configuration that DeepSpeed ignores",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "key-ignored")

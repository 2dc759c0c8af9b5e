"""The DeepSpeed configuration offloads what its ZeRO stage does not split.

Parameters are offloaded with stage 3 only, optimizer states with 1, 2 and 3. Otherwise DeepSpeed starts and
offloads nothing.

Why: The job runs out of the memory that offload was to save.

Bad::

    "stage": 2,
    "offload_param": {"device": "cpu"}

Good::

    "stage": 3,
    "offload_param": {"device": "cpu"}

Fix: Raise the stage, or remove the block.

Source: wenet-e2e/wenet, pull request 2499; DeepSpeed, configuration JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS342",
    "deepspeed-offload-ignored",
    "warning",
    since="0.1.0",
    summary="offload that the ZeRO stage does not do",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "stage-ignored")

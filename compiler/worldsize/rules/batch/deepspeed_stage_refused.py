"""A setting of the DeepSpeed configuration works with other ZeRO stages only.

DeepSpeed asserts these when it reads the file.

Why: Every rank stops with an assertion after the cluster has started.

Bad::

    "stage": 2,
    "offload_optimizer": {"device": "cpu", "ratio": 0.5}

Good::

    "stage": 3,
    "offload_optimizer": {"device": "cpu", "ratio": 0.5}

Fix: Choose a stage of the message, or remove the setting.

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
    "WS341",
    "deepspeed-stage-refused",
    "error",
    since="0.1.0",
    summary="a setting that the ZeRO stage does not have",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "stage-refused")

"""The DeepSpeed configuration gives neither `train_batch_size` nor `train_micro_batch_size_per_gpu`.

Accumulation alone is not enough to work out the other two.

Why: Every rank stops with an assertion after the cluster has started.

Bad::

    "gradient_accumulation_steps": 4

Good::

    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 4

Fix: Add one of the two.

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
    "WS314",
    "deepspeed-batch-missing",
    "error",
    since="0.1.0",
    summary="a DeepSpeed configuration without a batch size",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "batch-missing")

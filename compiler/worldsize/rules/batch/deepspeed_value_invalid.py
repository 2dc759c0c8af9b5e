"""A value of the DeepSpeed configuration is out of its range, or none of its words.

Batches are at least 1, ZeRO has the stages 0 to 3, bucket sizes are positive, devices are `none`, `cpu` or
`nvme`.

Why: Every rank stops with an assertion after the cluster has started.

Bad::

    "train_micro_batch_size_per_gpu": 0

Good::

    "train_micro_batch_size_per_gpu": 16

Fix: Write a value that DeepSpeed takes.

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
    "WS312",
    "deepspeed-value-invalid",
    "error",
    since="0.1.0",
    summary="a number or word that DeepSpeed cannot have",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "value")

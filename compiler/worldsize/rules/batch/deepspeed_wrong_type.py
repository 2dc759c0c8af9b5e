"""A value of the DeepSpeed configuration is of a type that DeepSpeed cannot use.

A batch in quotes is a text, and so is a learning rate that a shell was to fill in.

Why: Every rank stops with a type error after the cluster has started.

Bad::

    "train_batch_size": "512"

Good::

    "train_batch_size": 512

Fix: Write a value of the type that the message names.

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
    "WS316",
    "deepspeed-wrong-type",
    "error",
    since="0.1.0",
    summary="a DeepSpeed value of the wrong type",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "type")

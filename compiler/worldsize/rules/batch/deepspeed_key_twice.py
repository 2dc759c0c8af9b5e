"""A block of the DeepSpeed configuration has a key twice.

DeepSpeed refuses the file; other readers take the last one.

Why: Every rank stops with an error after the cluster has started.

Bad::

    "bf16": {"enabled": true},
    "bf16": {"enabled": false}

Good::

    "bf16": {"enabled": true}

Fix: Keep one of the two.

Source: DeepSpeed 0.19.8, `deepspeed/runtime/config_utils.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS353",
    "deepspeed-key-twice",
    "error",
    since="0.1.0",
    summary="a key that stands twice in a DeepSpeed configuration",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.faults(RULE, context, job, "duplicate")

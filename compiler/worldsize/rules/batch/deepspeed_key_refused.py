"""A block of the DeepSpeed configuration has a key that DeepSpeed refuses there.

`zero_optimization`, `fp16`, `bf16` and a few more are checked strictly. A deprecated key beside the one
that replaced it is refused as well.

Why: Every rank stops with a validation error after the cluster has started.

Bad::

    "bf16": {
      "enabled": true,
      "loss_scale": 0
    }

Good::

    "bf16": {"enabled": true}

Fix: Remove the key, or move it where the help says.

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
    "WS315",
    "deepspeed-key-refused",
    "error",
    since="0.1.0",
    summary="a key that DeepSpeed stops at",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "key-refused")

"""The DeepSpeed configuration asks for two precisions at once.

Either `fp16` or `bf16` is enabled; `data_types` follow the one that is.

Why: Every rank stops with an assertion after the cluster has started.

Bad::

    "fp16": {"enabled": true},
    "bf16": {"enabled": true}

Good::

    "fp16": {"enabled": false},
    "bf16": {"enabled": true}

Fix: Keep one.

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
    "WS343",
    "deepspeed-precision-conflict",
    "error",
    since="0.1.0",
    summary="precisions that contradict each other",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "precision")

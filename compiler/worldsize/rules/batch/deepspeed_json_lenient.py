"""The DeepSpeed configuration has a comment, or a comma before a closing bracket.

DeepSpeed's own reader takes HJSON and lets them pass. Hugging Face's trainers and most tools read JSON.

Why: The file works with one launcher and stops the next.

Bad::

    // half the memory
    "bf16": {"enabled": true},

Good::

    "bf16": {"enabled": true}

Fix: Remove them.

Source: RFC 8259; https://hjson.github.io.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS352",
    "deepspeed-json-lenient",
    "warning",
    since="0.1.0",
    summary="a comment or a comma too many in a DeepSpeed configuration",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.faults(RULE, context, job, "lenient")

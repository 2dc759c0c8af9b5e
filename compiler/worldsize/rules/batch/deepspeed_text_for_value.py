"""A switch or number of the DeepSpeed configuration stands in quotes.

DeepSpeed's models read `"false"` as false. Code that asks whether the value is true, as Hugging Face's
does, takes any text for true.

Why: Two programs read the same file differently, and a precision is on that should be off.

Bad::

    "fp16": {"enabled": "false"}

Good::

    "fp16": {"enabled": false}

Fix: Write the value without quotes.

Source: hiyouga/LlamaFactory, issue 3493.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS317",
    "deepspeed-text-for-value",
    "warning",
    since="0.1.0",
    summary="a text that DeepSpeed turns into a value",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "text")

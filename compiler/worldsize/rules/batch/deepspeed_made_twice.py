"""The DeepSpeed configuration has an `optimizer` or `scheduler` that the training makes itself.

`train_deepspeed` takes optimizer, learning rate and warm-up from the plan and refuses a second. Accelerate
stops where optimizers stand in the file and in the code.

Why: The job stops at its start; were one of the two taken, the learning rate would be one that nobody
chose.

Bad::

    "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}

Good::

    "zero_optimization": {"stage": 2}

Fix: Remove the block, and give its settings to the step.

Source: Hugging Face Accelerate, DeepSpeed guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS319",
    "deepspeed-made-twice",
    "error",
    since="0.1.0",
    summary="an optimizer or schedule in both places",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "twice")

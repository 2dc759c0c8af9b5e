"""The DeepSpeed configuration says another number than its step was planned with.

Micro-batch and accumulation are compared with the inputs `batch_size_per_device` and
`gradient_accumulation_steps`. Of `train_deepspeed` global batch, precision and clipping are as well; what
the file leaves out it fills in from the plan.

Why: The training would not be the one whose learning rate and steps were derived; `train_deepspeed` refuses
to start.

Bad::

    "train_micro_batch_size_per_gpu": 8

Good::

    "train_micro_batch_size_per_gpu": 4

Fix: Write the number of the plan, leave it out, or change the plan.

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
    "WS350",
    "deepspeed-plan-disagrees",
    "error",
    since="0.1.0",
    summary="a configuration of another training than planned",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "plan")

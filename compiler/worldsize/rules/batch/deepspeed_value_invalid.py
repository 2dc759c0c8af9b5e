"""A batch of the DeepSpeed configuration is below 1, or the ZeRO stage is not 0 to 3.

DeepSpeed asserts all of these.

Why: every rank stops with an assertion after the cluster has started.

Bad::

    "train_micro_batch_size_per_gpu": 0

Good::

    "train_micro_batch_size_per_gpu": 16

Fix: write a number that DeepSpeed takes.

Source: DeepSpeed, configuration JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.diagnostics.problem import Problem
from worldsize.rules import launch
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping

RULE = Rule(
    "WS312",
    "deepspeed-value-invalid",
    "error",
    since="0.1.0",
    summary="a batch or ZeRO stage that DeepSpeed cannot have",
)


_COUNTS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        for root in _deepspeed.configs(context, found):
            for name in _COUNTS:
                value = _deepspeed.whole(root, name)
                if value is not None and value[0] < 1:
                    message = f"`{name}` is {value[0]}, not at least 1"
                    yield RULE.problem(value[1].span, message, "write a whole number of at least 1")
            zero = root.get("zero_optimization")
            stage = _deepspeed.whole(zero, "stage") if isinstance(zero, Mapping) else None
            if stage is not None and not 0 <= stage[0] <= 3:
                message = f"`stage` is {stage[0]}, and ZeRO has the stages 0 to 3"
                yield RULE.problem(stage[1].span, message, "write 0, 1, 2 or 3")

"""The script hands its own optimizer or schedule to DeepSpeed, so that of the configuration is not made.

DeepSpeed takes what it is given and passes over the block without a word.

Why: The learning rate of the file is read by people and by nobody else.

Bad::

    "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}

Good::

    "zero_optimization": {"stage": 2}

Fix: Remove the block, or hand over the parameters only: `deepspeed.initialize(model=model,
model_parameters=model.parameters())`.

Source: DeepSpeed 0.19.8, `DeepSpeedEngine._configure_optimizer`.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS340",
    "deepspeed-block-unused",
    "warning",
    since="0.1.0",
    summary="an optimizer or schedule of the configuration without effect",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "unused")

"""DeepSpeed stops at the optimizer, be it of the configuration or of the script.

ZeRO wants to be told before it goes on with an optimizer that it was not tested with, and offload before it
takes one of torch's. Names that neither DeepSpeed nor torch has, and `max_grad_norm` among its parameters,
are refused always.

Why: Every rank stops with an assertion after the cluster has started.

Bad::

    "type": "Lamb",

Good::

    "optimizer": {"type": "Lamb", "params": {"lr": 1e-3}},
    "zero_allow_untested_optimizer": true

Fix: Write what the help says at the top level of the file, or choose another optimizer.

Source: DeepSpeed 0.19.8, `deepspeed/runtime/engine.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS348",
    "deepspeed-optimizer-refused",
    "error",
    since="0.1.0",
    summary="an optimizer that DeepSpeed does not take as it is",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "optimizer")

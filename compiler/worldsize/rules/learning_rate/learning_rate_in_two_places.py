"""The command gives another learning rate than the optimizer of the DeepSpeed configuration.

An optimizer of the configuration is made by DeepSpeed with its own `lr`; the flag then reaches nothing,
or the optimizer is made twice.

Why: The training runs with a rate that nobody chose.

Bad::

    --lr 0.001

Good::

    --lr 0.0003

Fix: Keep one of the two.

Source: DeepSpeed, configuration JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping

RULE = Rule(
    "WS406", "learning-rate-in-two-places", "warning", since="0.1.0", summary="two different learning rates"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        flags = found.flags("lr", "learning_rate")
        given = found.number(flags[0]) if len(flags) == 1 else None
        if given is None or flags[0].value is None:
            continue
        span = found.span(flags[0].value)
        for root in _deepspeed.configs(context, found):
            optimizer = root.get("optimizer")
            params = optimizer.get("params") if isinstance(optimizer, Mapping) else None
            rate = params.get("lr") if isinstance(params, Mapping) else None
            value = _deepspeed.number(rate)
            if rate is not None and value is not None and value != given and span is not None:
                message = f"the learning rate is {given:g} here and {value:g} in the DeepSpeed configuration"
                related = (Related(rate.span, "the rate of the configuration"),)
                yield RULE.problem(
                    span, message, f"write {value:g}, or remove one of the two", related=related
                )

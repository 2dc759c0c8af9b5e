"""The command asks for another ZeRO stage than the DeepSpeed configuration.

Which of the two wins depends on the script.

Why: the job runs out of memory, or pays for communication that it does not need.

Bad::

    --zero_stage 2

Good::

    --zero_stage 3

Fix: write the same stage in both, or remove the flag.

Source: DeepSpeed, configuration JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.diagnostics.problem import Problem, Related
from worldsize.rules import launch
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping

RULE = Rule("WS313", "zero-stage-disagrees", "warning", since="0.1.0", summary="two different ZeRO stages")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        flags = found.flags("zero_stage", "zero_optimization_stage")
        given = found.number(flags[0]) if len(flags) == 1 else None
        if given is None or flags[0].value is None:
            continue
        span = found.span(flags[0].value)
        for root in _deepspeed.configs(context, found):
            zero = root.get("zero_optimization")
            stage = _deepspeed.whole(zero, "stage") if isinstance(zero, Mapping) else None
            if stage is not None and stage[0] != given and span is not None:
                message = (
                    f"the command asks for ZeRO stage {given:g}, the DeepSpeed configuration for {stage[0]}"
                )
                related = (Related(stage[1].span, "the stage of the configuration"),)
                yield RULE.problem(span, message, f"write {stage[0]}, or remove the flag", related=related)

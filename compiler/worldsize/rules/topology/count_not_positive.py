"""A number of processes, workers or instances, or a time limit, is zero or negative.

azure-ai-ml passes any number on.

Why: The job is refused when it is submitted, or waits for an instance that never starts.

Bad::

    process_count_per_instance: 0

Good::

    process_count_per_instance: 4

Fix: Write a number of at least 1, or leave it out.

Source: Microsoft Learn, CLI (v2) command job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worldsize.azureml import distribution
from worldsize.azureml.model import Component, Field, Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS213",
    "count-not-positive",
    "error",
    since="0.1.0",
    summary="a count or time limit that is zero or negative",
)


_LEAST = {
    "process_count_per_instance": 1,
    "worker_count": 1,
    "parameter_server_count": 0,
    "instance_count": 1,
    "max_instance_count": 1,
    "timeout": 1,
    "trial_timeout": 1,
    "max_total_trials": 1,
    "max_concurrent_trials": 1,
}


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    yield from _counts(step.distribution, step.resources, step.limits)


@RULE.checks(Component)
def check_component(context: Context, component: Component) -> Iterator[Problem]:
    yield from _counts(component.distribution, component.resources)


def _counts(*blocks: Field[Any] | None) -> Iterator[Problem]:
    for block in blocks:
        if block is None or not isinstance(block.value, dict):
            continue
        for name, least in _LEAST.items():
            found = distribution.member(block, name)
            if found is None or found.span is None or isinstance(found.value, bool):
                continue
            value = _number(found.value)
            if value is not None and value < least:
                unit = " second" if "timeout" in name else ""
                message = f"`{name}` is {found.value}, not at least {least}{unit}"
                yield RULE.problem(
                    found.span, message, f"write a whole number of at least {least}, or remove it"
                )


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None

"""A count or time limit is zero or negative."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worldsize.azureml import fields
from worldsize.azureml.model import Component, Field, Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context

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


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _counts(step.distribution, step.resources, step.limits)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    yield from _counts(component.distribution, component.resources)


def _counts(*blocks: Field[Any] | None) -> Iterator[Finding]:
    for block in blocks:
        if block is None or not isinstance(block.value, dict):
            continue
        for name, least in _LEAST.items():
            field = fields.read_member(block, name)
            if field is None or field.span is None or isinstance(field.value, bool):
                continue
            value = _number(field.value)
            if value is not None and value < least:
                unit = " second" if "timeout" in name else ""
                message = f"`{name}` is {field.value}, not at least {least}{unit}"
                yield Finding(field.span, message, f"write a whole number of at least {least}, or remove it")


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None

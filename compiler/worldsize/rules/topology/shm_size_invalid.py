"""`shm_size` is zero, or not a number with a unit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from worldsize.azureml import fields
from worldsize.azureml.model import Component, Field, Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context

_SHAPE = re.compile(r"(\d+(?:\.\d+)?) ?[kmgtp]?i?b?", re.IGNORECASE)


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _judge(step.resources)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    yield from _judge(component.resources)


def _judge(resources: Field[Any] | None) -> Iterator[Finding]:
    field = fields.read_member(resources, "shm_size")
    if field is None or field.span is None or not isinstance(field.value, str) or "${{" in field.value:
        return
    match = _SHAPE.fullmatch(field.value.strip())
    if match is None:
        message = f"`shm_size` is `{field.value}`, which is not a number with a unit"
    elif not float(match[1]):
        message = f"`shm_size` is `{field.value}`: no shared memory at all"
    else:
        return
    yield Finding(field.span, message, "write a number and `b`, `k`, `m` or `g`, for example `16g`")

"""`shm_size` is not a number with a unit, or is zero."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from worldsize.azureml import distribution
from worldsize.azureml.model import Component, Field, Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context

_SHAPE = re.compile(r"(\d+(?:\.\d+)?) ?[kmgtp]?i?b?", re.IGNORECASE)


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _judge(step.resources)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    yield from _judge(component.resources)


def _judge(resources: Field[Any] | None) -> Iterator[Finding]:
    found = distribution.member(resources, "shm_size")
    if found is None or found.span is None or not isinstance(found.value, str) or "${{" in found.value:
        return
    match = _SHAPE.fullmatch(found.value.strip())
    if match is None:
        message = f"`shm_size` is `{found.value}`, which is not a number with a unit"
    elif not float(match[1]):
        message = f"`shm_size` is `{found.value}`: no shared memory at all"
    else:
        return
    yield Finding(found.span, message, "write a number and `b`, `k`, `m` or `g`, for example `16g`")

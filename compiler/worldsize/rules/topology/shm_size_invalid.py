"""`shm_size` is not a number with a unit, or is zero.

It goes to Docker as it stands: a number and one of `b`, `k`, `m`, `g`.

Why: The container does not start.

Bad::

    shm_size: lots

Good::

    shm_size: 16g

Fix: Write for example `16g`.

Source: Microsoft Learn, CLI (v2) command job YAML schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from worldsize.azureml import distribution
from worldsize.azureml.model import Component, Field, Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS226", "shm-size-invalid", "error", since="0.1.0", summary="a size of shared memory that cannot be read"
)


_SHAPE = re.compile(r"(\d+(?:\.\d+)?) ?[kmgtp]?i?b?", re.IGNORECASE)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    yield from _judge(step.resources)


@RULE.checks(Component)
def check_component(context: Context, component: Component) -> Iterator[Problem]:
    yield from _judge(component.resources)


def _judge(resources: Field[Any] | None) -> Iterator[Problem]:
    found = distribution.member(resources, "shm_size")
    if found is None or found.span is None or not isinstance(found.value, str) or "${{" in found.value:
        return
    match = _SHAPE.fullmatch(found.value.strip())
    if match is None:
        message = f"`shm_size` is `{found.value}`, which is no number with a unit"
    elif not float(match[1]):
        message = f"`shm_size` is `{found.value}`: no shared memory at all"
    else:
        return
    yield RULE.problem(found.span, message, "write a number and `b`, `k`, `m` or `g`, for example `16g`")

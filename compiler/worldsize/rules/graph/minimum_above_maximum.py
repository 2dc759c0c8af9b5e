"""The minimum of an input lies above its maximum.

No value satisfies both.

Why: Every value is refused once the component is used.

Bad::

    rate: {type: number, min: 5, max: 1}

Good::

    rate: {type: number, min: 1, max: 5}

Fix: Swap the two.

Source: Microsoft Learn, CLI (v2) command component YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import span_of
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS670",
    "minimum-above-maximum",
    "error",
    since="0.1.0",
    summary="an input whose minimum lies above its maximum",
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    if component.raw is None:
        return
    for port in component.inputs.values():
        low = literals.number(port.min.value) if port.min else None
        high = literals.number(port.max.value) if port.max else None
        if low is not None and high is not None and low > high:
            message = f"`{port.name}` has `min` {low} above `max` {high}"
            yield RULE.problem(span_of(port.min), message, "swap the two")

"""The lower bound of a search space lies above its upper bound.

``min_value`` must not be greater than ``max_value``.

Why: no trial can be drawn, and the sweep fails when it starts.

Bad::

    rate: {type: uniform, min_value: 0.9, max_value: 0.1}

Good::

    rate: {type: uniform, min_value: 0.1, max_value: 0.9}

Fix: swap the bounds.

Source: Microsoft Learn, CLI (v2) sweep job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.model import Step
from worldsize.diagnostics.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Scalar

RULE = Rule(
    "WS643",
    "search-space-empty",
    "error",
    since="0.1.0",
    summary="a search space without values between its bounds",
)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    space = step.raw.get("search_space") if isinstance(step.raw, Mapping) else None
    if not isinstance(space, Mapping):
        return
    for key, entry in space.items():
        low = entry.get("min_value") if isinstance(entry, Mapping) else None
        high = entry.get("max_value") if isinstance(entry, Mapping) else None
        if not isinstance(low, Scalar) or not isinstance(high, Scalar):
            continue
        lower, upper = literals.number(low.value), literals.number(high.value)
        if lower is not None and upper is not None and lower > upper:
            message = f"`{key.text}` has `min_value` {low.text} above `max_value` {high.text}"
            yield RULE.problem(low.span, message, "swap the two bounds")

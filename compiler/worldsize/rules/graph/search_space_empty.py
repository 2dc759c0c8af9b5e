"""A search space holds no value that could be tried.

``min_value`` must not be greater than ``max_value``, and a ``choice`` needs ``values``.

Why: No trial can be drawn, and the sweep fails when it starts.

Bad::

    rate: {type: uniform, min_value: 0.9, max_value: 0.1}

Good::

    rate: {type: uniform, min_value: 0.1, max_value: 0.9}

Fix: Swap the bounds, or list what is to be tried.

Source: Microsoft Learn, CLI (v2) sweep job YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.model import Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Scalar, Sequence

RULE = Rule(
    "WS643",
    "search-space-empty",
    "error",
    since="0.1.0",
    summary="a search space without a value to try",
)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    space = step.raw.get("search_space") if isinstance(step.raw, Mapping) else None
    if not isinstance(space, Mapping):
        return
    for key, entry in space.items():
        if isinstance(entry, Mapping):
            yield from _bounds(key, entry)
            yield from _choice(key, entry)


def _bounds(key: Scalar, entry: Mapping) -> Iterator[Problem]:
    low, high = entry.get("min_value"), entry.get("max_value")
    if not isinstance(low, Scalar) or not isinstance(high, Scalar):
        return
    lower, upper = literals.number(low.value), literals.number(high.value)
    if lower is not None and upper is not None and lower > upper:
        message = f"`{key.text}` has `min_value` {low.text} above `max_value` {high.text}"
        yield RULE.problem(low.span, message, "swap the two bounds")


def _choice(key: Scalar, entry: Mapping) -> Iterator[Problem]:
    kind, values = entry.get("type"), entry.get("values")
    if not isinstance(kind, Scalar) or kind.text.lower() != "choice":
        return
    if values is None or (isinstance(values, Sequence) and not values.items):
        message = f"choice `{key.text}` has no `values`, so there is nothing to try"
        yield RULE.problem((values or kind).span, message, "list them, such as `values: [16, 32]`")

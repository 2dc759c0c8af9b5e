"""A search space contains no values."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.model import Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.yaml.nodes import Mapping, Scalar, Sequence


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    space = step.raw.get("search_space") if isinstance(step.raw, Mapping) else None
    if not isinstance(space, Mapping):
        return
    for key, entry in space.items():
        if isinstance(entry, Mapping):
            yield from _bounds(key, entry)
            yield from _choice(key, entry)


def _bounds(key: Scalar, entry: Mapping) -> Iterator[Finding]:
    low, high = entry.get("min_value"), entry.get("max_value")
    if not isinstance(low, Scalar) or not isinstance(high, Scalar):
        return
    lower, upper = literals.parse_number(low.value), literals.parse_number(high.value)
    if lower is not None and upper is not None and lower > upper:
        message = f"`{key.text}` has `min_value` {low.text} above `max_value` {high.text}"
        yield Finding(low.span, message, "swap the two bounds")


def _choice(key: Scalar, entry: Mapping) -> Iterator[Finding]:
    kind, values = entry.get("type"), entry.get("values")
    if not isinstance(kind, Scalar) or kind.text.lower() != "choice":
        return
    if values is None or (isinstance(values, Sequence) and not values.items):
        message = f"choice `{key.text}` has no `values`, so there is nothing to try"
        yield Finding((values or kind).span, message, "list them, such as `values: [16, 32]`")

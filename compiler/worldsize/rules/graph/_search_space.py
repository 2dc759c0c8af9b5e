"""Search spaces of sweeps: without values, or continuous although the sampling is a grid."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.model import Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.yaml.nodes import Mapping, Scalar, Sequence


def check_step(context: Context, step: Step) -> Iterator[Problem]:
    space = step.raw.get("search_space") if isinstance(step.raw, Mapping) else None
    is_grid = step.type == "sweep" and _samples_grid(step)
    for key, entry in space.items() if isinstance(space, Mapping) else ():
        if isinstance(entry, Mapping):
            yield from _check_bounds(key, entry)
            yield from _check_choice(key, entry, is_grid=is_grid)


def _samples_grid(step: Step) -> bool:
    algorithm = step.raw.get("sampling_algorithm") if isinstance(step.raw, Mapping) else None
    if isinstance(algorithm, Mapping):
        algorithm = algorithm.get("type")
    return isinstance(algorithm, Scalar) and algorithm.text.lower() == "grid"


def _check_bounds(key: Scalar, entry: Mapping) -> Iterator[Problem]:
    low, high = entry.get("min_value"), entry.get("max_value")
    if not isinstance(low, Scalar) or not isinstance(high, Scalar):
        return
    lower, upper = literals.parse_number(low.value), literals.parse_number(high.value)
    if lower is not None and upper is not None and lower > upper:
        message = f"`{key.text}` has `min_value` {low.text} above `max_value` {high.text}"
        yield Problem("search-space-empty", low.span, message, "swap the two bounds")


def _check_choice(key: Scalar, entry: Mapping, *, is_grid: bool) -> Iterator[Problem]:
    kind, values = entry.get("type"), entry.get("values")
    if not isinstance(kind, Scalar):
        return
    if kind.text.lower() == "choice":
        if values is None or (isinstance(values, Sequence) and not values.items):
            message = f"choice `{key.text}` has no `values`, so there is nothing to try"
            span = (values or kind).span
            yield Problem("search-space-empty", span, message, "list them, such as `values: [16, 32]`")
    elif is_grid and isinstance(kind.value, str):
        message = f"grid sampling tries every value, and `{key.text}` is `{kind.text}`"
        help_ = "write `type: choice` with `values:`, or `sampling_algorithm: random`"
        yield Problem("grid-needs-choice", kind.span, message, help_)

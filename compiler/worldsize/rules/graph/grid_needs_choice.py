"""Grid sampling is asked to try all values of a continuous search space.

A grid is made of ``choice`` values.

Why: The sweep is refused when it is submitted.

Bad::

    rate: {type: uniform, min_value: 0.1, max_value: 0.9}

Good::

    rate: {type: choice, values: [0.1, 0.5, 0.9]}

Fix: Write ``choice``, or ``sampling_algorithm: random``.

Source: Microsoft Learn, Hyperparameter tuning a model.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Scalar

RULE = Rule(
    "WS644", "grid-needs-choice", "error", since="0.1.0", summary="grid sampling over a continuous space"
)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    if step.type != "sweep" or not isinstance(step.raw, Mapping):
        return
    algorithm, space = step.raw.get("sampling_algorithm"), step.raw.get("search_space")
    if isinstance(algorithm, Mapping):
        algorithm = algorithm.get("type")
    if not isinstance(algorithm, Scalar) or algorithm.text.lower() != "grid":
        return
    for key, entry in space.items() if isinstance(space, Mapping) else ():
        kind = entry.get("type") if isinstance(entry, Mapping) else None
        if isinstance(kind, Scalar) and isinstance(kind.value, str) and kind.value.lower() != "choice":
            message = f"grid sampling tries every value, and `{key.text}` is `{kind.text}`"
            help_ = "write `type: choice` with `values:`, or `sampling_algorithm: random`"
            yield RULE.problem(kind.span, message, help_)

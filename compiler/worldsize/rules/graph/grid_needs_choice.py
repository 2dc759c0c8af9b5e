"""Grid sampling is used with a continuous search space."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.yaml.nodes import Mapping, Scalar


def check_step(context: Context, step: Step) -> Iterator[Finding]:
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
            yield Finding(kind.span, message, help_)

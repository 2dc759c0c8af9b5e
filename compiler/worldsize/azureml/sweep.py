"""The words of a sweep in azure-ai-ml (_schema/_sweep): distributions, sampling, early termination.

Readers of specs, native sweeps, runs and requests to the workspace use these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.azureml import literals
from worldsize.documents.yaml.nodes import Mapping as MappingNode
from worldsize.documents.yaml.nodes import Node, Scalar

# The settings of each distribution beside `type`.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "choice": ("values",),
    "randint": ("upper",),
    "uniform": ("min_value", "max_value"),
    "quniform": ("min_value", "max_value", "q"),
    "loguniform": ("min_value", "max_value"),
    "qloguniform": ("min_value", "max_value", "q"),
    "normal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "lognormal": ("mu", "sigma"),
    "qlognormal": ("mu", "sigma", "q"),
}
# Microsoft Learn, "Hyperparameter tuning a model": what Bayesian sampling supports.
BAYESIAN = ("choice", "uniform", "quniform")
ALGORITHMS = ("random", "grid", "bayesian")
# The settings of each policy beside those of every policy.
POLICIES: Mapping[str, tuple[str, ...]] = {
    "bandit": ("slack_factor", "slack_amount"),
    "median_stopping": (),
    "truncation_selection": ("truncation_percentage", "exclude_finished_jobs"),
}
_MOST_LISTED = 1000  # values of a distribution


def find_algorithm(sampling: Node | None) -> Scalar | None:
    """The name of the algorithm in ``sampling_algorithm``, which may be a mapping with options."""
    name = sampling.get("type") if isinstance(sampling, MappingNode) else sampling
    return name if isinstance(name, Scalar) else None


def searched_type(distribution: Mapping[str, Any]) -> str:
    """The type of an input that a distribution gives its values."""
    kind = str(distribution.get("type")).lower()
    if kind != "choice":
        return "integer" if kind == "randint" else "number"
    values = distribution.get("values")
    types = {literals.primitive_type(value) for value in (values if isinstance(values, list) else []) or [""]}
    if types <= {"integer", "number"}:
        return "number" if "number" in types else "integer"
    return types.pop() if len(types) == 1 else "string"


def list_values(distribution: Mapping[str, Any]) -> list[Any] | None:
    """The values of ``choice``, ``randint`` or ``quniform``; None where they cannot be listed."""
    kind = distribution.get("type")
    if kind == "choice":
        return list(distribution.get("values") or [])
    if kind == "randint":
        count = int(distribution.get("upper", 0))
        return list(range(count)) if 0 < count <= _MOST_LISTED else None
    if kind != "quniform" or any(name not in distribution for name in SETTINGS[kind]):
        return None
    low, high, q = (distribution[name] for name in SETTINGS[kind])
    first, last = round(low / q), round(high / q)
    whole = all(isinstance(number, int) for number in (low, high, q))
    if not first <= last < first + _MOST_LISTED:
        return None
    return [multiply_step(steps, q, whole=whole) for steps in range(first, last + 1)]


def multiply_step(steps: int, q: float, *, whole: bool) -> int | float:
    """A value of a quantised distribution; ``whole`` if every setting is an integer, and so each value."""
    return steps * int(q) if whole else float(f"{steps * q:.12g}")

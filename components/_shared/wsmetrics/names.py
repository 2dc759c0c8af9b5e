"""The metrics of each task, and whether more or less of each is better. Nothing here needs NumPy."""

from __future__ import annotations

import math

from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION

# A task's metrics in the order they are shown; `rows` counts rows and has no direction.
METRICS = {
    CLASSIFICATION: ("loss", "accuracy", "precision", "recall", "f1", "auroc", "rows"),
    REGRESSION: ("loss", "mse", "rmse", "mae", "r2", "rows"),
    MULTI_LABEL: ("loss", "accuracy", "f1", "f1_micro", "auroc", "rows"),
    LANGUAGE_MODEL: ("loss", "perplexity", "bits_per_byte", "accuracy", "rows"),
}
_GOALS = {
    **dict.fromkeys(("accuracy", "precision", "recall", "f1", "f1_micro", "auroc", "r2"), "maximize"),
    **dict.fromkeys(("loss", "mse", "rmse", "mae", "perplexity", "bits_per_byte"), "minimize"),
}


def metrics_with_goal(task: str) -> tuple[str, ...]:
    """Return the names of a task's metrics of which one can be the best."""
    return tuple(name for name in METRICS[task] if name in _GOALS)


def goal(name: str) -> str:
    """Return `maximize` or `minimize` for a metric.

    Raises:
        ValueError: the metric is unknown, or has no direction.
    """
    if name not in _GOALS:
        raise ValueError(f"metric {name!r} is neither to be maximized nor to be minimized")
    return _GOALS[name]


def is_better(name: str, new: float, old: float | None, min_delta: float = 0.0) -> bool:
    """Whether a metric improved by more than `min_delta`; NaN is never better, and worse than any number.

    Raises:
        ValueError: as :func:`goal`.
    """
    sign = 1.0 if goal(name) == "maximize" else -1.0
    if math.isnan(new):
        return False
    if old is None or math.isnan(old):
        return True
    return sign * new > sign * old + min_delta

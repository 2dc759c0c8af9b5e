"""The metrics of each task, and whether more or less of each is better. Nothing here needs NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping

from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION

# A task's metrics in the order they are shown; `rows` counts rows and has no direction.
METRICS = {
    CLASSIFICATION: (
        *("loss", "accuracy", "balanced_accuracy", "precision", "recall", "f1"),
        *("auroc", "average_precision", "rows"),
    ),
    REGRESSION: ("loss", "mse", "rmse", "mae", "r2", "rows"),
    MULTI_LABEL: ("loss", "accuracy", "f1", "f1_micro", "auroc", "average_precision", "rows"),
    LANGUAGE_MODEL: ("loss", "perplexity", "bits_per_byte", "accuracy", "rows"),
}
# What is at most 1 and better the more it is.
SHARES = (
    *("accuracy", "balanced_accuracy", "precision", "recall", "f1", "f1_micro"),
    *("auroc", "average_precision", "r2"),
)
_GOALS = {
    **dict.fromkeys(SHARES, "maximize"),
    **dict.fromkeys(("loss", "mse", "rmse", "mae", "perplexity", "bits_per_byte"), "minimize"),
}
LARGE_SHARE = 0.8  # of the rows: with a class of so many, the accuracy says little
CONSTANT = "constant_accuracy_"  # and the largest class: what the answer that is always this class gets
AT_THRESHOLD = "_at_threshold"
_HEADLINE = ("accuracy", "r2", "rmse", "mae", "loss", "perplexity", "bits_per_byte")


def choose_headline(metrics: Mapping[str, float]) -> list[str]:
    """Return the names of an evaluation's metrics that are shown first.

    Where the largest class has 80 % of the rows, the average precision leads for two classes, and for more
    the balanced accuracy.
    """
    names = [name for name in _HEADLINE if name in metrics]
    if not describe_constant(metrics):
        return names
    classes = sum(name.startswith("recall_") and not name.endswith(AT_THRESHOLD) for name in metrics)
    leading = ("average_precision", "balanced_accuracy") if classes == 2 else ("balanced_accuracy",)
    return [name for name in leading if name in metrics][:1] + names


def describe_constant(metrics: Mapping[str, float]) -> str:
    """Return what always saying the largest class gets, if it has 80 % of the rows; else nothing."""
    for name, value in metrics.items():
        if name.startswith(CONSTANT) and value >= LARGE_SHARE:
            return f"the constant answer `{name.removeprefix(CONSTANT)}` gets {value:.4g}"
    return ""


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

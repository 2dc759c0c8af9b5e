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
    if not describe_uninformed(metrics):
        return names
    two = len(_list_classes(metrics)) == 2
    leading = ("average_precision", "balanced_accuracy") if two else ("balanced_accuracy",)
    return [name for name in leading if name in metrics][:1] + names


def describe_uninformed(metrics: Mapping[str, float]) -> dict[str, str]:
    """Return by metric what answers get that know nothing of the rows, if one class has 80 % of them."""
    largest = next((name for name in metrics if name.startswith(CONSTANT)), "")
    if not largest or (share := metrics[largest]) < LARGE_SHARE:
        return {}
    name, classes = largest.removeprefix(CONSTANT), _list_classes(metrics)
    described = {"accuracy": f"the constant answer `{name}` gets {share:.4g}"}
    if len(classes) == 2 and name in classes:  # the average precision of a guess is the share of the second
        described["average_precision"] = f"a guess gets {share if name == classes[1] else 1 - share:.4g}"
    return described


def _list_classes(metrics: Mapping[str, float]) -> list[str]:
    """Return the classes of which the recall was measured, in order."""
    names = (name for name in metrics if name.startswith("recall_") and not name.endswith(AT_THRESHOLD))
    return [name.removeprefix("recall_") for name in names]


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

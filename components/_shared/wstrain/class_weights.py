"""Weights of the classes in the training loss, for labels of which few rows have one.

The loss of a batch is the *mean* over its samples of the weighted losses, `Σ wᵢ·lᵢ / n`. It is not divided
by the sum of the weights, as the mean of PyTorch's `CrossEntropyLoss(weight=…)` is: that sum depends on which
rows a process has, so the curve would depend on how the global batch is divided. The mean weight over the
training rows is 1, so the learning rate stays what it is.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wsshards.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt

NONE, BALANCED = "none", "balanced"


def class_weights(text: str) -> str | dict[str, float]:
    """Parse `none`, `balanced`, or the weights of some classes, such as `{yes: 5, no: 1}` or JSON."""
    if text in (NONE, BALANCED):
        return text
    weights: dict[str, float] = {}
    for name, value in _split(text):
        try:
            weight = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            weight = math.nan
        if not 0 < weight < math.inf:
            raise argparse.ArgumentTypeError(f"the weight of `{name}` is `{value}`, and must be above 0")
        if name in weights:
            raise argparse.ArgumentTypeError(f"`{name}` has two weights")
        weights[name] = weight
    return weights


def _split(text: str) -> list[tuple[str, Any]]:
    """Return names and what stands for their weights."""
    content = text.strip()
    if content.startswith("{") and content.endswith("}"):
        try:
            pairs: list[tuple[str, Any]] = json.loads(content, object_pairs_hook=list)
        except ValueError:  # without quotes, as YAML has it
            parts = [part.rpartition(":") for part in content[1:-1].split(",")]
            pairs = [(name.strip().strip("'\""), value.strip()) for name, colon, value in parts if colon]
            pairs = pairs if len(pairs) == len(parts) else []
        if pairs:
            return pairs
    raise argparse.ArgumentTypeError(
        f"`{text}` is neither none nor balanced nor the weights of classes, such as {{yes: 5, no: 1}}"
    )


def describe_weights(weights: str | Mapping[str, float]) -> str:
    """Return the weights as one text, the same for the same weights."""
    if isinstance(weights, str):
        return weights
    return json.dumps(dict(sorted(weights.items())), ensure_ascii=False)


def weigh_classes(
    weights: str | Mapping[str, float], names: Sequence[str], labels: npt.NDArray[Any]
) -> tuple[float, ...]:
    """Return the weight of each class; their mean over the rows is 1. Nothing for `none`.

    `balanced` gives class c the weight `N / (K·n_c)`, with N rows, K classes and n_c rows of the class, as
    scikit-learn's `compute_class_weight` (G. King and L. Zeng, "Logistic Regression in Rare Events Data",
    Political Analysis 9, 2001).

    Args:
        weights: from :func:`class_weights`.
        names: of the classes.
        labels: class number of each training row.

    Raises:
        UserError: a class is unknown or named twice, or no row has one whose weight follows from its rows.
    """
    if weights == NONE:
        return ()
    import numpy as np  # the launcher of processes parses options, and does without it

    rows = np.bincount(labels, minlength=len(names))
    if isinstance(weights, str):
        absent = [name for name, count in zip(names, rows.tolist(), strict=True) if not count]
        if absent:
            raise UserError(
                f"`class_weights` is `balanced`, but no training row has the class `{absent[0]}`",
                'shard rows of it, or name the weights of the others, such as `class_weights: "{yes: 5}"`',
            )
        return tuple((len(labels) / (len(names) * rows)).tolist())
    chosen = np.ones(len(names))
    numbers = [_find_class(name, names) for name in weights]
    for number, (name, weight) in zip(numbers, weights.items(), strict=True):
        if numbers.count(number) > 1:
            raise UserError(
                f"`class_weights` has two weights for the class `{names[number]}`, one by `{name}`"
            )
        chosen[number] = weight
    return tuple((chosen * (len(labels) / (chosen * rows).sum())).tolist())


def _find_class(name: str, names: Sequence[str]) -> int:
    """Return the number of a class that is written by its name or number."""
    if name in names:
        return names.index(name)
    if name.isdecimal() and int(name) < len(names):
        return int(name)
    shown = ", ".join(f"`{each}`" for each in names[:8])
    raise UserError(
        f"`class_weights` names `{name}`, which is not one of the {len(names)} classes",
        f"the classes of the shards are {shown}{', …' if len(names) > 8 else ''}",
    )

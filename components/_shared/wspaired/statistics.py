"""Every metric of `evaluate` as a function of sums over rows, or of ranked scores."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmetrics.cross_entropy import are_distributions, binary_losses, blocks, log_probabilities, log_softmax
from wsmetrics.names import AT_THRESHOLD, goal, metrics_with_goal
from wsmetrics.rank_scores import MAX_COLUMNS
from wsshards.errors import UserError, clip_text
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION

Array = npt.NDArray[Any]
_LARGEST = 700.0  # nats: the exponential of more is not a double
_OF_A_CLASS = ("precision", "recall", "f1")
_OF_A_TARGET = ("mse", "rmse", "mae", "r2")
_RANKED = ("auroc", "average_precision")
_COMPARED = 10_000  # names that a misspelt name is compared with


@dataclass(frozen=True)
class Subject:
    """What is predicted.

    Attributes:
        task: one of `wsshards.terms.TASKS`.
        names: the classes or targets as the names of metrics have them; empty for a language model.
        mean: of each target over the training rows.
        deviation: standard deviation of each target over the training rows.
        padding: the token that fills rows up, or None.
        byte_tokens: whether a token is a byte.
    """

    task: str
    names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    padding: int | None = None
    byte_tokens: bool = False


@dataclass(frozen=True)
class Rows:
    """One model's answers for some rows.

    Attributes:
        targets: as the shards hold them.
        outputs: probabilities, logits or numbers `[n, k]`, of a language model `[n, tokens, vocabulary]`;
            None of classes alone.
        classes: of a classifier, the predicted class `[n]`.
        logits: whether outputs are logits.
        threshold: the probability of the second of two classes from which on it is said.
    """

    targets: Array
    outputs: Array | None
    classes: Array | None = None
    logits: bool = False
    threshold: float | None = None


@dataclass(frozen=True)
class Statistic:
    """A metric that follows from sums over rows.

    Attributes:
        name: of the metric.
        goal: `maximize` or `minimize`.
        width: values of a row that are summed.
        measure: gives these values, `[n, width]`.
        compute: gives the metric `[…]` of sums `[…, width]`.
        is_mean: whether the metric is the first of two sums divided by the second.
        is_right: whether the first value says if a row is right, 1, or wrong, 0.
    """

    name: str
    goal: str
    width: int
    measure: Callable[[Rows], Array]
    compute: Callable[[Array], Array]
    is_mean: bool = False
    is_right: bool = False


@dataclass(frozen=True)
class RankStatistic:
    """The area under the ROC curve or the average precision, the mean over columns.

    Attributes:
        name: of the metric.
        goal: `maximize`.
        width: columns of scores.
        measure: gives scores, and whether each is of a positive row, both `[n, width]`.
    """

    name: str
    goal: str
    width: int
    measure: Callable[[Rows], tuple[Array, Array]]


def find_statistic(name: str, subject: Subject) -> Statistic | RankStatistic:
    """Return the statistic of a metric.

    Raises:
        UserError: `evaluate` has no such metric of this task.
    """
    names = list_metrics(subject)
    if name not in names:
        close = difflib.get_close_matches(name, names[:_COMPARED], n=3)
        shown = ", ".join(f"`{clip_text(other)}`" for other in close or names[:12])
        raise UserError(
            f"`{clip_text(name)}` is not a metric of this {subject.task.replace('_', ' ')}",
            f"did you mean {shown}?" if close else f"its metrics are {shown}",
        )
    base = name if name in metrics_with_goal(subject.task) else _find_base(name, subject)
    make = {
        CLASSIFICATION: _make_classification,
        MULTI_LABEL: _make_multi_label,
        REGRESSION: _make_regression,
        LANGUAGE_MODEL: _make_language,
    }[subject.task]
    return make(name, base, subject)


def list_metrics(subject: Subject) -> list[str]:
    """Return the names of the metrics that can be compared, those of all rows first."""
    names = [
        name
        for name in metrics_with_goal(subject.task)
        if (name not in _RANKED or 1 < len(subject.names) <= MAX_COLUMNS or subject.task == MULTI_LABEL)
        and (name != "bits_per_byte" or subject.byte_tokens)
    ]
    parts: tuple[str, ...] = _OF_A_CLASS
    if subject.task == REGRESSION:
        parts = _OF_A_TARGET if len(subject.names) > 1 else ()
    names += [f"{part}_{name}" for part in parts for name in subject.names]
    if subject.task == CLASSIFICATION and len(subject.names) == 2:
        names += [part + AT_THRESHOLD for part in _OF_A_CLASS]
    return list(dict.fromkeys(names))


def can_measure(statistic: Statistic | RankStatistic, rows: Rows) -> bool:
    """Whether answers hold what a metric needs: classes alone have no probability."""
    try:
        statistic.measure(rows)
    except UserError:
        return False
    return True


def holds_logits(subject: Subject, outputs: Array, targets: Array) -> bool:
    """Whether outputs cannot be probabilities, as `wsmetrics` judges it."""
    if subject.task == MULTI_LABEL:
        return not ((outputs >= 0) & (outputs <= 1)).all()
    if subject.task == REGRESSION:
        return False
    flat = outputs.reshape(-1, outputs.shape[-1])
    counted = np.ones(len(flat), bool)
    if subject.task == LANGUAGE_MODEL and subject.padding is not None:
        counted = targets.reshape(-1) != subject.padding
    return any(not are_distributions(flat[block][counted[block]]) for block in blocks(flat))


def _find_base(name: str, subject: Subject) -> str:
    """Return the metric that `recall_fraud` or `rmse_price` is of one class or target."""
    return next(
        part
        for part in (*_OF_A_CLASS, *_OF_A_TARGET)
        if name == part + AT_THRESHOLD or name.removeprefix(f"{part}_") in subject.names
    )


def _place_of(name: str, base: str, subject: Subject) -> int | None:
    """Return the number of the class or target that a metric is of; None if it is of all."""
    return None if name == base else subject.names.index(name.removeprefix(f"{base}_"))


def _outputs(rows: Rows) -> Array:
    if rows.outputs is None:
        raise UserError("the model answers with classes alone", "give probabilities or logits")
    return rows.outputs


def _with_ones(values: Array) -> Array:
    return np.stack([values, np.ones(len(values))], axis=1)


def _divide(sums: Array) -> Array:
    result: Array = sums[..., 0] / sums[..., 1]
    return result


def _mean(
    name: str, measure: Callable[[Rows], Array], *, is_right: bool = False, base: str = ""
) -> Statistic:
    """Return the statistic of a mean over rows of values `[n]`."""
    return Statistic(
        name, goal(base or name), 2, lambda rows: _with_ones(measure(rows)), _divide, True, is_right
    )


# Classes.


def _make_classification(name: str, base: str, subject: Subject) -> Statistic | RankStatistic:
    size = len(subject.names)
    if name == "accuracy":
        return _mean(name, _class_hits, is_right=True)
    if name == "loss":
        return _mean(name, _class_losses)
    if name in _RANKED:
        return RankStatistic(name, goal(name), 1 if size == 2 else size, partial(_class_ranks, size))
    if name == base + AT_THRESHOLD:
        return Statistic(name, goal(base), 3, _count_at_threshold, partial(_of_one_class, base))
    if name == base:
        over = {"balanced_accuracy": _balanced_accuracy}.get(name, partial(_over_classes, base))
        return Statistic(name, goal(name), 3 * size, partial(_count_classes, size), over)
    place = subject.names.index(name.removeprefix(f"{base}_"))
    return Statistic(name, goal(base), 3, partial(_count_class, place), partial(_of_one_class, base))


def _class_hits(rows: Rows) -> Array:
    return np.asarray(rows.classes == rows.targets, np.float64)


def _class_losses(rows: Rows) -> Array:
    outputs = _outputs(rows)
    logs = log_softmax(outputs) if rows.logits else log_probabilities(outputs)
    losses: Array = -logs[np.arange(len(logs)), rows.targets]
    return losses


def _class_ranks(size: int, rows: Rows) -> tuple[Array, Array]:
    values = np.asarray(_outputs(rows), np.float64)
    if size == 2:
        scores = values[:, 1:] - values[:, :1] if rows.logits else values[:, 1:]
        return scores, rows.targets[:, None] == 1
    return (log_softmax(values) if rows.logits else values), rows.targets[:, None] == np.arange(size)


def _count_classes(size: int, rows: Rows) -> Array:
    """Return of each class whether a row is right, predicted to have it, and has it: `[n, 3 * size]`."""
    counts, row = np.zeros((len(rows.targets), 3 * size)), np.arange(len(rows.targets))
    counts[row, rows.targets] = rows.classes == rows.targets
    counts[row, size + rows.classes] = 1  # type: ignore[operator]
    counts[row, 2 * size + rows.targets] = 1
    return counts


def _count_class(place: int, rows: Rows) -> Array:
    return _count_label(rows.classes == place, rows.targets == place)


def _count_at_threshold(rows: Rows) -> Array:
    if rows.threshold is None:
        raise UserError("the model has no decision threshold", "compare by another metric")
    return _count_label(_outputs(rows)[:, -1] >= rows.threshold, rows.targets == 1)


def _count_label(predicted: Any, targets: Any) -> Array:
    return np.stack([predicted & targets, predicted, targets], axis=1).astype(np.float64)


def _scores_of(base: str, right: Array, predicted: Array, rows: Array) -> Array:
    """Return the precision, recall or F1 of counts, 0 where nothing is to be divided by."""
    over = {"precision": predicted, "recall": rows, "f1": (predicted + rows) / 2}[base]
    result: Array = right / np.where(over > 0, over, 1)
    return result


def _of_one_class(base: str, sums: Array) -> Array:
    return _scores_of(base, sums[..., 0], sums[..., 1], sums[..., 2])


def _over_classes(base: str, sums: Array) -> Array:
    right, predicted, rows = np.split(sums, 3, axis=-1)
    seen = (predicted > 0) | (rows > 0)
    result: Array = (_scores_of(base, right, predicted, rows) * seen).sum(-1) / seen.sum(-1)
    return result


def _balanced_accuracy(sums: Array) -> Array:
    right, _, rows = np.split(sums, 3, axis=-1)
    result: Array = (right / np.where(rows > 0, rows, 1)).sum(-1) / (rows > 0).sum(-1)
    return result


# Several labels.


def _make_multi_label(name: str, base: str, subject: Subject) -> Statistic | RankStatistic:
    size = len(subject.names)
    if name == "accuracy":
        return _mean(
            name, lambda rows: (_labels(rows) == rows.targets).all(axis=1).astype(np.float64), is_right=True
        )
    if name == "loss":
        return _mean(
            name, lambda rows: binary_losses(_outputs(rows), rows.targets, logits=rows.logits).mean(axis=1)
        )
    if name in _RANKED:
        return RankStatistic(name, goal(name), size, lambda rows: (_outputs(rows), rows.targets > 0))
    if name == base:
        over = _micro_f1 if name == "f1_micro" else _mean_f1
        return Statistic(name, goal(name), 3 * size, _count_labels, over)
    place = subject.names.index(name.removeprefix(f"{base}_"))

    def count(rows: Rows) -> Array:
        return _count_label(_labels(rows)[:, place], rows.targets[:, place] > 0)

    return Statistic(name, goal(base), 3, count, partial(_of_one_class, base))


def _labels(rows: Rows) -> Array:
    labels: Array = _outputs(rows) >= (0 if rows.logits else 0.5)
    return labels


def _count_labels(rows: Rows) -> Array:
    predicted, targets = _labels(rows), rows.targets > 0
    return np.concatenate([predicted & targets, predicted, targets], axis=1).astype(np.float64)


def _mean_f1(sums: Array) -> Array:
    result: Array = _scores_of("f1", *np.split(sums, 3, axis=-1)).mean(-1)
    return result


def _micro_f1(sums: Array) -> Array:
    return _scores_of("f1", *(part.sum(-1) for part in np.split(sums, 3, axis=-1)))


# Numbers.


def _make_regression(name: str, base: str, subject: Subject) -> Statistic:
    place = _place_of(name, base, subject)
    chosen = slice(None) if place is None else slice(place, place + 1)
    size = len(subject.names) if place is None else 1
    scale = np.asarray(subject.deviation or [1.0] * len(subject.names))[chosen]
    center = np.asarray(subject.mean or [0.0] * len(subject.names))[chosen]

    def errors(rows: Rows) -> Array:
        differences: Array = (rows.targets - _outputs(rows))[:, chosen]
        return differences

    if base in ("mse", "loss"):
        unit = scale if base == "loss" else 1.0
        return _mean(name, lambda rows: ((errors(rows) / unit) ** 2).mean(axis=1), base=base)
    if base == "mae":
        return _mean(name, lambda rows: np.abs(errors(rows)).mean(axis=1), base=base)
    if base == "rmse":

        def measure_squares(rows: Rows) -> Array:
            return np.concatenate([errors(rows) ** 2, np.ones((len(rows.targets), 1))], axis=1)

        return Statistic(name, goal(base), size + 1, measure_squares, _root_mean)

    def measure_spread(rows: Rows) -> Array:
        # R² is the same in any unit; around the mean, squares of values lose no digits.
        values = (rows.targets[:, chosen] - center) / scale
        squares = (errors(rows) / scale) ** 2
        return np.concatenate([squares, values, values**2, np.ones((len(values), size))], axis=1)

    return Statistic(name, goal(base), 4 * size, measure_spread, _r2)


def _root_mean(sums: Array) -> Array:
    result: Array = np.sqrt(sums[..., :-1] / sums[..., -1:]).mean(-1)
    return result


def _r2(sums: Array) -> Array:
    squares, values, value_squares, rows = np.split(sums, 4, axis=-1)
    spread = value_squares - values**2 / rows
    constant = spread <= 1e-12 * np.maximum(value_squares, 1e-300)
    shares = np.where(constant, np.where(squares > 0, 1.0, 0.0), squares / np.where(constant, 1.0, spread))
    result: Array = (1 - shares).mean(-1)
    return result


# Tokens.


def _make_language(name: str, base: str, subject: Subject) -> Statistic:
    if base == "accuracy":
        return Statistic(name, goal(name), 2, partial(_count_tokens, subject), _divide, True)
    of_loss: dict[str, Callable[[Array], Array]] = {
        "loss": _divide,
        "perplexity": lambda sums: np.exp(np.minimum(_divide(sums), _LARGEST)),
        "bits_per_byte": lambda sums: _divide(sums) / math.log(2),
    }
    measure = partial(_sum_token_losses, subject)
    return Statistic(name, goal(name), 2, measure, of_loss[base], base == "loss")


def _count_tokens(subject: Subject, rows: Rows) -> Array:
    counted = _counted(subject, rows)
    right = (_outputs(rows).argmax(axis=-1).reshape(rows.targets.shape) == rows.targets) & counted
    return np.stack([right.sum(axis=1), counted.sum(axis=1)], axis=1).astype(np.float64)


def _sum_token_losses(subject: Subject, rows: Rows) -> Array:
    outputs, counted = _outputs(rows), _counted(subject, rows)
    flat, tokens = outputs.reshape(-1, outputs.shape[-1]), rows.targets.reshape(-1)
    losses = np.empty(len(flat))
    for block in blocks(flat):
        logs = log_softmax(flat[block]) if rows.logits else log_probabilities(flat[block])
        losses[block] = -logs[np.arange(len(logs)), tokens[block]]
    losses = np.where(counted, losses.reshape(rows.targets.shape), 0.0)
    return np.stack([losses.sum(axis=1), counted.sum(axis=1)], axis=1)


def _counted(subject: Subject, rows: Rows) -> Array:
    """Return which tokens `[n, tokens]` are more than filling."""
    if subject.padding is None:
        return np.ones(rows.targets.shape, bool)
    counted: Array = rows.targets != subject.padding
    return counted


def shown_metrics(subject: Subject) -> Sequence[str]:
    """Return the metrics among which `evaluate` chooses what it shows first."""
    if subject.task == REGRESSION:
        return ["r2"]
    rare = {2: "average_precision"}.get(len(subject.names), "balanced_accuracy")
    return ["accuracy", rare] if subject.task == CLASSIFICATION else ["accuracy"]

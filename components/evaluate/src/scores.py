"""Scores of predictions, accumulated batch by batch, and the picture of the confusion matrix."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wsshards.errors import UserError

Array = npt.NDArray[Any]
Metrics = dict[str, float]
MAX_SHOWN_CLASSES = 30  # with more classes the cells do not show their counts
_TINY = float(np.finfo(np.float32).tiny)  # keeps the logarithm of a probability of 0 finite
_FIT = "evaluate on the shards that the model was trained on"
_DIVERGED = "train it again with a lower learning rate"


class CrossEntropy:
    """Mean negative log-likelihood in nats of `[n, k]` answers that are probabilities or logits.

    Which of the two they are is known only after all rows: they are probabilities if none is negative and
    every row sums to 1. So both interpretations are accumulated.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._as_probabilities = self._as_logits = 0.0
        self._probabilities = True

    def add(self, answers: Array, targets: Array) -> None:
        """Add `[n, k]` answers and the correct columns `[n]`."""
        answers = answers.astype(np.float64)
        chosen = answers[np.arange(len(targets)), targets]
        self._rows += len(targets)
        if self._probabilities:
            sums_to_one = np.abs(answers.sum(axis=1) - 1) < 1e-3
            self._probabilities = bool((answers >= 0).all() and sums_to_one.all())
            self._as_probabilities -= float(np.log(np.maximum(chosen, _TINY)).sum())
        top = answers.max(axis=1)
        spread = np.log(np.exp(answers - top[:, None]).sum(axis=1)) + top
        self._as_logits += float((spread - chosen).sum())

    def mean(self) -> float:
        """Return the mean in nats per row."""
        return (self._as_probabilities if self._probabilities else self._as_logits) / self._rows


class ClassifierScores:
    """Scores of a classifier whose answers are class numbers, class names, probabilities or logits."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = tuple(classes)
        self._numbers = {name: number for number, name in enumerate(self.classes)}
        self._entropy: CrossEntropy | None = CrossEntropy()
        self._targets: list[Array] = []
        self._predicted: list[Array] = []

    def add(self, answers: Array, targets: Array) -> None:
        """Add answers `[n]` or `[n, classes]` for rows of the classes `targets` `[n]`.

        Raises:
            UserError: the answers do not fit the classes.
        """
        if answers.ndim == 2:
            self._check_columns(answers)
            if self._entropy:
                self._entropy.add(answers, targets)
            predicted = answers.argmax(axis=1)
        elif answers.ndim == 1:
            predicted = self._decided(answers, targets)
        else:
            raise UserError(
                f"the model answers with shape {list(answers.shape)} for {len(self.classes)} classes",
                "give a class, or a probability or logit for each class, per row",
            )
        self._targets.append(targets)
        self._predicted.append(predicted.astype(np.int64))

    def confusion(self) -> npt.NDArray[np.int64]:
        """Count rows by true class (rows) and predicted class (columns), `[classes, classes]`."""
        size = len(self.classes)
        cells = np.concatenate(self._targets) * size + np.concatenate(self._predicted)
        return np.bincount(cells, minlength=size * size).reshape(size, size)

    def metrics(self) -> tuple[Metrics, Metrics]:
        """Return the overall metrics and those of each class; averages give each class the same weight."""
        counts = self.confusion()
        right, rows, answers = counts.diagonal(), counts.sum(axis=1), counts.sum(axis=0)
        summary: Metrics = {"accuracy": float(right.sum() / rows.sum()), "rows": float(rows.sum())}
        if self._entropy:
            summary["loss"] = self._entropy.mean()
        # As scikit-learn's `precision_recall_fscore_support`, whose import takes two seconds.
        scores = {
            "precision": right / np.maximum(answers, 1),
            "recall": right / np.maximum(rows, 1),
            "f1": 2 * right / np.maximum(answers + rows, 1),
        }
        details: Metrics = {}
        for name, values in scores.items():
            summary[name] = float(values[rows > 0].mean())  # a class without rows has no score to average
            details |= {
                f"{name}_{_safe(label)}": float(v) for label, v in zip(self.classes, values, strict=True)
            }
        return summary, details

    def _check_columns(self, answers: Array) -> None:
        if answers.dtype.kind not in "fiub" or answers.shape[1] != len(self.classes):
            raise UserError(
                f"the model answers {answers.shape[1]} values a row for {len(self.classes)} classes",
                _FIT,
            )
        if not np.isfinite(answers).all():
            raise UserError("the model answers with a number that is not finite", _DIVERGED)

    def _decided(self, answers: Array, targets: Array) -> Array:
        """Convert one value per row to class numbers: number, name, or probability of the second of two."""
        if answers.dtype.kind == "f" and len(self.classes) == 2 and not _whole(answers):
            if answers.min() < 0 or answers.max() > 1:
                raise UserError(
                    f"the model answers with one value from {answers.min():.3g} to {answers.max():.3g} a row",
                    "give the probability of the second class, or one value per class",
                )
            if self._entropy:
                self._entropy.add(np.stack([1 - answers, answers], axis=1), targets)
            return answers >= 0.5
        self._entropy = None  # a class alone has no probability, so there is no loss
        return self._named(answers)

    def _named(self, answers: Array) -> Array:
        if (
            answers.dtype.kind in "fiub"
            and np.isfinite(answers).all()
            and (answers == np.floor(answers)).all()
        ):
            numbers = answers.astype(np.int64)
            if not len(numbers) or (numbers.min() >= 0 and numbers.max() < len(self.classes)):
                return numbers
            answers = numbers
        unknown = next((value for value in answers.tolist() if str(value) not in self._numbers), None)
        if unknown is not None:
            shown = ", ".join(f"`{name}`" for name in self.classes[:8])
            raise UserError(
                f"the model answers `{unknown}`, which is not one of the {len(self.classes)} classes",
                f"the classes of the shards are {shown}{', …' if len(self.classes) > 8 else ''}",
            )
        return np.array([self._numbers[str(value)] for value in answers.tolist()], np.int64)


class LanguageScores:
    """Scores of a byte-level language model whose answers are `[n, tokens, vocabulary]`."""

    def __init__(self) -> None:
        self._entropy = CrossEntropy()
        self._tokens = self._right = self._rows = 0

    def add(self, answers: Array, targets: Array) -> None:
        """Add answers for rows whose next bytes are `targets` `[n, tokens]`.

        Raises:
            UserError: the answers have a different shape.
        """
        flat = answers.reshape(-1, answers.shape[-1]) if answers.ndim > 1 else answers.reshape(1, -1)
        wanted, right = targets.size, targets.reshape(-1)
        if answers.dtype.kind != "f" or len(flat) != wanted or right.max() >= flat.shape[1]:
            raise UserError(
                f"the model answers with shape {list(answers.shape)} for next bytes {list(targets.shape)}",
                "give a probability or logit for each of 256 bytes at each place of a row",
            )
        if not np.isfinite(flat).all():
            raise UserError("the model answers with a number that is not finite", _DIVERGED)
        self._entropy.add(flat, right)
        self._tokens += wanted
        self._rows += len(targets)
        self._right += int((flat.argmax(axis=1) == right).sum())

    def metrics(self) -> tuple[Metrics, Metrics]:
        """Return the loss in nats per byte, the same in bits, the perplexity and the accuracy."""
        loss = self._entropy.mean()
        summary = {
            "loss": loss,
            "bits_per_byte": loss / math.log(2),
            "perplexity": math.exp(min(loss, 700)),
            "accuracy": self._right / self._tokens,
            "rows": float(self._rows),
        }
        return summary, {}


def _whole(answers: Array) -> bool:
    return answers.dtype.kind in "fiub" and bool(
        (np.isfinite(answers) & (answers == np.floor(answers))).all()
    )


def _safe(name: str) -> str:
    """Convert a class name for use in a metric name: MLflow accepts letters, digits and `_-. :/`."""
    return re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)[:200] or "_"


def draw_confusion(counts: npt.NDArray[np.int64], classes: Sequence[str], path: Path) -> None:
    """Draw `counts` `[classes, classes]`, true classes as rows and predicted classes as columns, as a PNG.

    Colour is the share of the true class, so small classes are as easy to read as large ones.
    """
    import matplotlib as mpl  # needed only for classifiers

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(16.0, 2.5 + 0.45 * len(classes))
    figure, axes = plt.subplots(figsize=(side, side), layout="constrained")
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted class", ylabel="true class", title=f"{int(counts.sum()):,} rows")
    if len(classes) <= MAX_SHOWN_CLASSES:
        names = [name if len(name) <= 16 else f"{name[:15]}…" for name in classes]
        axes.set_xticks(
            range(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0, parse_math=False
        )
        axes.set_yticks(range(len(names)), names, parse_math=False)
        _write_counts(axes, counts, shares)
    figure.colorbar(image, ax=axes, shrink=0.7, label="share of the true class")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _write_counts(axes: Any, counts: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]) -> None:
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=8)

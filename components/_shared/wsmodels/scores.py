"""Scores of a model's answers, batch by batch, whatever form the answers have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from wsmetrics.class_counts import ClassCounts
from wsmetrics.classification import ClassificationMetrics
from wsmetrics.metrics import make_shard_metrics
from wsmetrics.multi_label import MultiLabelMetrics
from wsmetrics.names import AT_THRESHOLD, CONSTANT
from wsmetrics.regression import RegressionMetrics
from wsshards.errors import UserError
from wsshards.manifest import Manifest
from wsshards.terms import CLASSIFICATION, MULTI_LABEL, REGRESSION

Array = npt.NDArray[Any]
MetricValues = dict[str, float]
Curve = tuple[Array, Array]  # false and true positive rates
MAX_CONFUSION_CLASSES = 1000  # 8 MB of counts, and a picture with one pixel for each
MAX_CURVES = 8
MAX_POINTS = 5_000  # of a picture
_FIT = "evaluate on the shards that the model was trained on"
_DIVERGED = "train it again with a lower learning rate"


class Answers(NamedTuple):
    """A model's answers in the one form that metrics take.

    Attributes:
        outputs: numbers `[n, k]`, of a language model `[n, tokens, vocabulary]`; None of classes alone.
        classes: of a classifier, the predicted class `[n]`.
    """

    outputs: Array | None
    classes: Array | None = None


class Scores(Protocol):
    """The scores of one task."""

    def add(self, answers: Array, targets: Array) -> Answers:
        """Add a model's answers for some rows, and return them in one form.

        Raises:
            UserError: they do not fit the task.
        """

    def metrics(self) -> tuple[MetricValues, MetricValues]:
        """Return the overall metrics, and those of each class or target."""


def make_scores(
    manifest: Manifest, rows: int
) -> ClassifierScores | MultiLabelScores | RegressionScores | LanguageScores:
    """Return the scores of a manifest's task over a number of rows."""
    label = manifest.label
    if label is None:
        return LanguageScores(manifest)
    if manifest.task == CLASSIFICATION:
        return ClassifierScores(label.classes)
    if manifest.task == MULTI_LABEL:
        return MultiLabelScores(label.classes)
    assert manifest.task == REGRESSION
    return RegressionScores(label.names, label.deviation, rows)


class ClassifierScores:
    """Scores of a classifier whose answers are class numbers, class names, probabilities or logits."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = tuple(classes)
        self._numbers = {name: number for number, name in enumerate(self.classes)}
        self._metrics = ClassificationMetrics(len(self.classes))
        # Of two classes one number may be a probability or a class; it is a class if all are 0 or 1.
        self._single = self._between = False
        self.threshold: float | None = None  # of the probability of the second of two classes
        self._at_threshold = ClassCounts(2)
        size = len(self.classes)
        self._confusion = np.zeros((size, size), np.int64) if size <= MAX_CONFUSION_CLASSES else None

    def add(self, answers: Array, targets: Array) -> Answers:
        """Add answers `[n]` or `[n, classes]` for rows of the classes `targets` `[n]`.

        Raises:
            UserError: the answers do not fit the classes.
        """
        if answers.ndim == 2:
            self._check_columns(answers)
            self._metrics.add(answers, targets)
            read = Answers(answers, answers.argmax(axis=1))
            self._decide(answers[:, -1], targets)
        elif answers.ndim == 1:
            read = self._add_single(answers, targets)
        else:
            raise UserError(
                f"the model answers with shape {list(answers.shape)} for {len(self.classes)} classes",
                "give a class, or a probability or logit for each class, per row",
            )
        if self._confusion is not None:
            size = len(self.classes)
            cells = targets * size + read.classes
            self._confusion += np.bincount(cells, minlength=size * size).reshape(size, size)
        return read

    def curves(self) -> dict[str, Curve]:
        """Return the ROC curve of the second of two classes."""
        scores = self._metrics.scores
        is_measured = len(self.classes) == 2 and "auroc" in self.metrics()[0]
        return {self.classes[1]: scores.ranks.curve()} if is_measured and scores and scores.ranks else {}

    def confusion(self) -> npt.NDArray[np.int64] | None:
        """Return the rows by true class and predicted class, `[classes, classes]`; None for very many."""
        return self._confusion

    def metrics(self) -> tuple[MetricValues, MetricValues]:
        """Return the overall metrics and those of each class."""
        summary, counts = self._metrics.compute(), self._metrics.counts
        is_decided = self._single and not self._between
        if is_decided:
            summary = _without_scores(summary)
        largest = int(counts.rows.argmax())
        summary[CONSTANT + safe_name(self.classes[largest])] = float(counts.rows[largest] / counts.rows.sum())
        details = _of_each(counts.of_each_class(), self.classes)
        if self.threshold is not None and self._at_threshold.rows.any() and not is_decided:
            decided = self._at_threshold.of_each_class().items()
            details |= {"decision_threshold": self.threshold}
            details |= {name + AT_THRESHOLD: float(values[1]) for name, values in decided}
        return summary, details

    def _decide(self, answers: Array, targets: Array) -> None:
        """Count the decisions from the threshold on, given the probability of the second of two classes."""
        if self.threshold is not None and len(self.classes) == 2:
            self._at_threshold.add_classes((answers >= self.threshold).astype(np.int64), targets)

    def _check_columns(self, answers: Array) -> None:
        if answers.dtype.kind not in "fiub" or answers.shape[1] != len(self.classes):
            raise UserError(
                f"the model answers {answers.shape[1]} values a row for {len(self.classes)} classes",
                _FIT,
            )
        if not np.isfinite(answers).all():
            raise UserError("the model answers with a number that is not finite", _DIVERGED)

    def _add_single(self, answers: Array, targets: Array) -> Answers:
        """Add one value per row: a class, or the probability of the second of two."""
        if answers.dtype.kind != "f" or len(self.classes) != 2:
            predicted = self._named(answers)
            self._metrics.add_decisions(predicted, targets)  # a class alone has no probability
            return Answers(None, predicted)
        if not ((answers >= 0) & (answers <= 1)).all():  # also where one is NaN
            raise UserError(
                f"the model answers with one value from {answers.min():.3g} to {answers.max():.3g} a row",
                "give the probability of the second class, or one value per class",
            )
        self._single = True
        self._between |= not _are_whole(answers)
        outputs = np.stack([1 - answers, answers], axis=1)
        self._metrics.add(outputs, targets)
        self._decide(answers, targets)
        return Answers(outputs, (answers >= 0.5).astype(np.int64))

    def _named(self, answers: Array) -> Array:
        if answers.dtype.kind in "fiub" and _are_whole(answers):
            numbers = answers.astype(np.int64)
            if _are_class_numbers(answers, len(self.classes)):
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


class MultiLabelScores:
    """Scores of answers with one value for each class: a probability, a logit, or the label 0 or 1."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = tuple(classes)
        self._metrics = MultiLabelMetrics(len(self.classes))
        self._only_whole = True  # all answers have been 0 or 1 so far: labels, not probabilities

    def add(self, answers: Array, targets: Array) -> Answers:
        """Add answers and labels, both `[n, classes]`; raises UserError if they do not fit."""
        answers = _expect_columns(answers, len(self.classes), "class")
        self._only_whole &= bool(((answers == 0) | (answers == 1)).all())
        self._metrics.add(answers, targets)
        return Answers(answers)

    def curves(self) -> dict[str, Curve]:
        """Return the ROC curves of the largest classes."""
        sums = self._metrics.sums
        if self._only_whole or sums.ranks is None:
            return {}
        largest = np.argsort(-sums.counts.rows, kind="stable")[:MAX_CURVES]
        shown = [number for number in sorted(largest.tolist()) if 0 < sums.counts.rows[number] < sums.rows]
        return {self.classes[number]: sums.ranks.curve(number) for number in shown}

    def metrics(self) -> tuple[MetricValues, MetricValues]:
        """Return the overall metrics and those of each class."""
        summary = self._metrics.compute()
        if self._only_whole:
            summary = _without_scores(summary)
        return summary, _of_each(self._metrics.sums.counts.of_each_class(), self.classes)


class RegressionScores:
    """Scores of predicted numbers, in the unit of the targets."""

    def __init__(self, targets: Sequence[str], deviation: Sequence[float], rows: int) -> None:
        self.targets = tuple(targets)
        self._metrics = RegressionMetrics(len(self.targets), deviation=deviation)
        self._every = -(-rows // MAX_POINTS) or 1  # a picture shows one row of so many
        self._seen = 0
        self._shown: list[tuple[Array, Array]] = []

    def add(self, answers: Array, targets: Array) -> Answers:
        """Add answers and targets, both `[n, targets]`; raises UserError if they do not fit."""
        answers = _expect_columns(answers, len(self.targets), "target")
        self._metrics.add(answers, targets)
        rows = slice(-self._seen % self._every, None, self._every)
        self._shown.append((answers[rows], targets[rows]))
        self._seen += len(targets)
        return Answers(answers)

    def shown(self) -> tuple[Array, Array]:
        """Return the answers and targets, both `[n, targets]`, of at most `MAX_POINTS` rows."""
        predicted, true = (np.concatenate(parts) for parts in zip(*self._shown, strict=True))
        return predicted, true

    def metrics(self) -> tuple[MetricValues, MetricValues]:
        """Return the overall metrics and, of several targets, those of each."""
        each = self._metrics.of_each_target() if len(self.targets) > 1 else {}
        return self._metrics.compute(), _of_each({k: v for k, v in each.items() if v}, self.targets)


class LanguageScores:
    """Scores of a language model whose answers are `[n, tokens, vocabulary]`."""

    def __init__(self, manifest: Manifest) -> None:
        self._metrics = make_shard_metrics(manifest)
        tokenizer = manifest.features.tokenizer
        self._noun = "bytes" if tokenizer is None or tokenizer.kind == "bytes" else "tokens"
        self._vocabulary = tokenizer.vocabulary if tokenizer else 256

    def add(self, answers: Array, targets: Array) -> Answers:
        """Add answers for rows whose next tokens are `targets` `[n, tokens]`.

        Raises:
            UserError: the answers have a different shape.
        """
        columns = answers.shape[-1] if answers.ndim > 1 else 0
        if answers.dtype.kind != "f" or answers.size != targets.size * columns or targets.max() >= columns:
            raise UserError(
                f"the model answers with shape {list(answers.shape)} for next {self._noun} "
                f"{list(targets.shape)}",
                f"give a probability or logit for each of {self._vocabulary} {self._noun} at each place of "
                "a row",
            )
        if not np.isfinite(answers).all():
            raise UserError("the model answers with a number that is not finite", _DIVERGED)
        self._metrics.add(answers, targets)
        return Answers(answers)

    def metrics(self) -> tuple[MetricValues, MetricValues]:
        """Return the overall metrics."""
        return self._metrics.compute(), {}


def _expect_columns(answers: Array, columns: int, noun: str) -> Array:
    """Return answers as `[n, columns]`; raises UserError if they are something else."""
    shaped = answers[:, None] if answers.ndim == 1 and columns == 1 else answers
    plural = f"{columns} {noun if columns == 1 else {'class': 'classes'}.get(noun, noun + 's')}"
    if shaped.dtype.kind not in "fiub" or shaped.ndim != 2:
        kind = f"shape {list(answers.shape)}" if answers.dtype.kind in "fiub" else f"`{answers.flat[0]}`"
        raise UserError(
            f"the model answers with {kind} for {plural}", f"give one number for each {noun}, per row"
        )
    if shaped.shape[1] != columns:
        raise UserError(f"the model answers {shaped.shape[1]} values a row for {plural}", _FIT)
    if not np.isfinite(shaped).all():
        raise UserError("the model answers with a number that is not finite", _DIVERGED)
    return shaped


def _are_whole(answers: Array) -> bool:
    return bool((np.isfinite(answers) & (answers == np.floor(answers))).all())


def _are_class_numbers(answers: Array, classes: int) -> bool:
    return _are_whole(answers) and bool(((answers >= 0) & (answers < classes)).all())


def _without_scores(summary: MetricValues) -> MetricValues:
    ranked = ("loss", "auroc", "average_precision")
    return {name: value for name, value in summary.items() if name not in ranked}


def _of_each(values: dict[str, Any], names: Sequence[str]) -> MetricValues:
    return {
        f"{metric}_{safe_name(name)}": float(value)
        for metric, each in values.items()
        for name, value in zip(names, each, strict=True)
    }


def safe_name(name: str) -> str:
    """Convert a class name for use in a metric name: MLflow accepts letters, digits and `_-. :/`."""
    return re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)[:200] or "_"

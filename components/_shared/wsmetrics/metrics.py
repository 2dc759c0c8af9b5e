"""The metrics of a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from wsmetrics.classification import ClassificationMetrics
from wsmetrics.language_model import LanguageModelMetrics
from wsmetrics.multi_label import MultiLabelMetrics
from wsmetrics.regression import RegressionMetrics
from wsshards.manifest import Manifest
from wsshards.terms import CLASSIFICATION, MULTI_LABEL, REGRESSION, TASKS


class Metrics(Protocol):
    """Metrics of rows that arrive block by block, on any number of ranks.

    Every sum is exact, so the metrics have the same bits however the rows are cut and in whatever order the
    blocks are merged. What is not defined, such as the AUROC of rows of one class, is left out.
    """

    def add(self, outputs: Any, targets: Any) -> None:
        """Add a model's outputs for some rows, and the targets of these rows as the shards hold them."""

    def state(self) -> Any:
        """Return what ranks exchange: small, except that AUROC and average precision need every score."""

    def merge(self, states: Iterable[Any]) -> None:
        """Add the rows of other objects of the same arguments."""

    def compute(self) -> dict[str, float]:
        """Return the metrics of all rows."""


def make_metrics(
    task: str,
    outputs: int,
    *,
    logits: bool | None = None,
    target_deviation: Sequence[float] = (),
    padding: int | None = None,
    byte_tokens: bool | None = None,
) -> Metrics:
    """Return the metrics of a task.

    Args:
        task: one of `wsshards.terms.TASKS`.
        outputs: classes, targets, or the vocabulary.
        logits: whether outputs are logits or probabilities; None if the values are to tell.
        target_deviation: of each target of a regression over the training rows, for its loss.
        padding: token that fills rows up, which does not count.
        byte_tokens: whether tokens are bytes; by default if there are 256.
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {TASKS}, got {task!r}")
    if task == CLASSIFICATION:
        return ClassificationMetrics(outputs, logits=logits)
    if task == REGRESSION:
        return RegressionMetrics(outputs, deviation=target_deviation)
    if task == MULTI_LABEL:
        return MultiLabelMetrics(outputs, logits=logits)
    is_bytes = outputs == 256 if byte_tokens is None else byte_tokens
    return LanguageModelMetrics(outputs, padding=padding, byte_tokens=is_bytes, logits=logits)


def best_threshold(metrics: Metrics) -> float | None:
    """Return the probability of the second of two classes from which on its F1 is largest, if any is."""
    return metrics.best_threshold() if isinstance(metrics, ClassificationMetrics) else None


def make_shard_metrics(manifest: Manifest, *, logits: bool | None = None) -> Metrics:
    """Return the metrics of the rows that a manifest describes."""
    label, tokenizer = manifest.label, manifest.features.tokenizer
    if label is not None:
        return make_metrics(manifest.task, label.outputs, logits=logits, target_deviation=label.deviation)
    vocabulary = tokenizer.vocabulary if tokenizer else 256
    return make_metrics(
        manifest.task,
        vocabulary,
        logits=logits,
        padding=tokenizer.padding if tokenizer else None,
        byte_tokens=tokenizer is None or tokenizer.kind == "bytes",
    )

"""Metrics of predicted classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmetrics.class_counts import ClassCounts
from wsmetrics.cross_entropy import are_distributions, blocks, log_probabilities, log_softmax
from wsmetrics.exact_sum import ExactSum
from wsmetrics.rank_scores import MAX_COLUMNS, RankScores, exponential, sigmoid, unchanged

Array = npt.NDArray[Any]


class ClassificationMetrics:
    """The metrics of rows that have one class each: `wsmetrics.names.METRICS` lists them.

    The loss is the mean negative log-likelihood in nats. Precision, recall and F1 are means over the classes
    that a row has or is predicted to have, as scikit-learn's with `average="macro"`; the balanced accuracy is
    the mean recall of the classes that a row has. AUROC and average precision are those of the second of two
    classes, else the mean over classes of one against the rest; they are left out where no class has rows
    inside and outside, or for more than 100 classes.

    Args:
        classes: number of classes.
        logits: whether outputs are logits; None if only the values can tell. They are probabilities then if
            none is negative and every row sums to 1, which is known only at the end.
    """

    def __init__(self, classes: int, *, logits: bool | None = None) -> None:
        self.counts = ClassCounts(classes)
        self._classes = classes
        self._scores = {form: _Scores(classes, form) for form in (False, True) if logits in (None, form)}

    def add(self, outputs: Any, targets: Any) -> None:
        """Add probabilities or logits `[n, classes]` and classes `[n]`."""
        outputs, targets = np.asarray(outputs), np.asarray(targets, np.int64)
        for block in blocks(outputs):
            values, classes = outputs[block], targets[block]
            if len(self._scores) > 1 and not are_distributions(values):
                del self._scores[False]
            for scores in self._scores.values():
                scores.add(values, classes)
            self.counts.add_classes(values.argmax(axis=1), classes)

    def add_decisions(self, predicted: Any, targets: Any) -> None:
        """Add predicted classes `[n]`, which have no probability: what needs one is left out."""
        self._scores = {}
        self.counts.add_classes(np.asarray(predicted, np.int64), np.asarray(targets, np.int64))

    def state(self) -> Any:
        """Return what another object's `merge` takes."""
        return self.counts, self._scores

    def merge(self, states: Iterable[Any]) -> None:
        """Add the rows of other objects; in which order does not matter."""
        for counts, scores in states:
            self.counts.merge(counts)
            self._scores = {form: own for form, own in self._scores.items() if form in scores}
            for form, own in self._scores.items():
                own.merge(scores[form])

    def compute(self) -> dict[str, float]:
        """Return the metrics; only `rows` if there are none."""
        rows = int(self.counts.rows.sum())
        if not rows:
            return {"rows": 0.0}
        metrics = {"accuracy": float(self.counts.right.sum() / rows)}
        metrics["balanced_accuracy"] = self.counts.balanced_accuracy()
        seen = (self.counts.rows > 0) | (self.counts.predicted > 0)
        for name, values in self.counts.of_each_class().items():
            metrics[name] = float(values[seen].mean())
        scores = self.scores
        if scores is not None:
            metrics = {"loss": scores.loss.divided(rows), **metrics}
            metrics |= scores.ranks.means() if scores.ranks else {}
        return metrics | {"rows": float(rows)}

    def best_threshold(self) -> float | None:
        """Return the probability of the second of two classes from which on its F1 is largest, if any is."""
        scores = self.scores
        return scores.ranks.best_threshold() if self._classes == 2 and scores and scores.ranks else None

    @property
    def scores(self) -> _Scores | None:
        """The sums of the outputs as what they turned out to be."""
        return next(iter(self._scores.values()), None)


class _Scores:
    """Loss and ranks of outputs that are taken for logits, or for probabilities."""

    def __init__(self, classes: int, logits: bool) -> None:
        self._logits = logits
        self.loss = ExactSum()
        self.ranks: RankScores | None = None
        if classes == 2:
            self.ranks = RankScores(1, sigmoid if logits else unchanged)
        elif classes <= MAX_COLUMNS:
            self.ranks = RankScores(classes, exponential if logits else unchanged)

    def add(self, outputs: Array, targets: Array) -> None:
        logs = log_softmax(outputs) if self._logits else log_probabilities(outputs)
        self.loss.add(-logs[np.arange(len(targets)), targets])
        if self.ranks is None:
            return
        classes = outputs.shape[1]
        if classes == 2:
            values = np.asarray(outputs, np.float64)
            scores = values[:, 1:] - values[:, :1] if self._logits else values[:, 1:]
            positive = targets[:, None] == 1
        else:
            # Log-probabilities rank as probabilities do, and do not run into 1.
            scores = logs if self._logits else outputs
            positive = targets[:, None] == np.arange(classes)
        dtype = np.float64 if outputs.dtype == np.float64 else np.float32
        self.ranks.add(scores.astype(dtype), positive)

    def merge(self, other: _Scores) -> None:
        self.loss.merge(other.loss)
        if self.ranks is not None and other.ranks is not None:
            self.ranks.merge(other.ranks)

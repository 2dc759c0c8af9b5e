"""Metrics of rows that have any number of labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmetrics.class_counts import ClassCounts
from wsmetrics.cross_entropy import binary_losses, blocks
from wsmetrics.exact_sum import ExactSum
from wsmetrics.rank_scores import MAX_COLUMNS, RankScores, sigmoid, unchanged

Array = npt.NDArray[Any]


class MultiLabelMetrics:
    """The metrics of rows with one 0 or 1 for each class: `wsmetrics.names.METRICS` lists them.

    The loss is the binary cross-entropy in nats, the mean over rows and classes. A label is predicted from a
    probability of 0.5. The accuracy counts rows of which every label is right (scikit-learn's
    `accuracy_score`), F1 is the mean over classes, and `f1_micro` that of all labels together. AUROC and
    average precision are means over the classes that have rows with and without the label; they are left out
    for more than 100.

    Args:
        classes: number of classes.
        logits: whether outputs are logits; None if only the values can tell. They are probabilities then if
            all are from 0 to 1, which is known only at the end.
    """

    def __init__(self, classes: int, *, logits: bool | None = None) -> None:
        self._classes = classes
        self._forms = {form: _Sums(classes, form) for form in (False, True) if logits in (None, form)}
        self._has_scores = True

    def add(self, outputs: Any, targets: Any) -> None:
        """Add probabilities or logits `[n, classes]` and labels, 0 or 1, `[n, classes]`."""
        outputs, targets = np.asarray(outputs), np.asarray(targets, np.uint8)
        for block in blocks(outputs):
            values, labels = outputs[block], targets[block]
            if len(self._forms) > 1 and not ((values >= 0) & (values <= 1)).all():
                del self._forms[False]
            for form in self._forms.values():
                form.add(values, labels)

    def add_decisions(self, predicted: Any, targets: Any) -> None:
        """Add predicted labels, 0 or 1, `[n, classes]`: what needs a probability is left out."""
        self._has_scores = False
        predicted, targets = np.asarray(predicted, np.uint8), np.asarray(targets, np.uint8)
        for form in self._forms.values():
            form.add_decisions(predicted, targets)

    def state(self) -> Any:
        """Return what another object's `merge` takes."""
        return self._forms, self._has_scores

    def merge(self, states: Iterable[Any]) -> None:
        """Add the rows of other objects; in which order does not matter."""
        for forms, has_scores in states:
            self._has_scores &= has_scores
            self._forms = {form: own for form, own in self._forms.items() if form in forms}
            for form, own in self._forms.items():
                own.merge(forms[form])

    def compute(self) -> dict[str, float]:
        """Return the metrics; only `rows` if there are none."""
        sums = self.sums
        if not sums.rows:
            return {"rows": 0.0}
        metrics = {
            "accuracy": sums.exact / sums.rows,
            "f1": float(sums.counts.of_each_class()["f1"].mean()),
            "f1_micro": sums.counts.micro_f1(),
        }
        if self._has_scores:
            metrics = {"loss": sums.loss.divided(sums.rows * self._classes), **metrics}
            metrics |= sums.ranks.means() if sums.ranks else {}
        return metrics | {"rows": float(sums.rows)}

    @property
    def sums(self) -> _Sums:
        """The sums of the outputs as what they turned out to be."""
        return next(iter(self._forms.values()))


class _Sums:
    """Sums over outputs that are taken for logits, or for probabilities."""

    def __init__(self, classes: int, logits: bool) -> None:
        self._logits = logits
        self.counts = ClassCounts(classes)
        self.rows = self.exact = 0
        self.loss = ExactSum()
        enough = classes <= MAX_COLUMNS
        self.ranks = RankScores(classes, sigmoid if logits else unchanged) if enough else None

    def add(self, outputs: Array, targets: Array) -> None:
        self.add_decisions((outputs >= (0 if self._logits else 0.5)).astype(np.uint8), targets)
        self.loss.add(binary_losses(outputs, targets, logits=self._logits))
        if self.ranks is not None:
            self.ranks.add(outputs, targets)

    def add_decisions(self, predicted: Array, targets: Array) -> None:
        self.counts.add_labels(predicted, targets)
        self.rows += len(targets)
        self.exact += int((predicted == targets).all(axis=1).sum())

    def merge(self, other: _Sums) -> None:
        self.counts.merge(other.counts)
        self.rows += other.rows
        self.exact += other.exact
        self.loss.merge(other.loss)
        if self.ranks is not None and other.ranks is not None:
            self.ranks.merge(other.ranks)

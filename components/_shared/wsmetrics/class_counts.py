"""Precision, recall and F1 from counts of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class ClassCounts:
    """For each class: rows that have it, rows predicted to have it, and rows of both.

    Precision is right / predicted, recall right / rows and F1 their harmonic mean, 0 where nothing is to be
    divided by: as scikit-learn's `precision_recall_fscore_support`.
    """

    def __init__(self, classes: int) -> None:
        self.right, self.rows, self.predicted = np.zeros((3, classes), np.int64)

    def add_classes(self, predicted: Array, targets: Array) -> None:
        """Add predicted and true classes `[n]`."""
        size = len(self.rows)
        self.right += np.bincount(targets[predicted == targets], minlength=size)
        self.rows += np.bincount(targets, minlength=size)
        self.predicted += np.bincount(predicted, minlength=size)

    def add_labels(self, predicted: Array, targets: Array) -> None:
        """Add predicted and true labels, 0 or 1, `[n, classes]`."""
        self.right += (predicted & targets).sum(axis=0, dtype=np.int64)
        self.rows += targets.sum(axis=0, dtype=np.int64)
        self.predicted += predicted.sum(axis=0, dtype=np.int64)

    def merge(self, other: ClassCounts) -> None:
        """Add the counts of another."""
        self.right += other.right
        self.rows += other.rows
        self.predicted += other.predicted

    def of_each_class(self) -> dict[str, Array]:
        """Return `precision`, `recall` and `f1` of each class, `[classes]`."""
        return {
            "precision": self.right / np.maximum(self.predicted, 1),
            "recall": self.right / np.maximum(self.rows, 1),
            "f1": 2 * self.right / np.maximum(self.predicted + self.rows, 1),
        }

    def balanced_accuracy(self) -> float:
        """Return the mean recall of the classes with rows, as scikit-learn's `balanced_accuracy_score`."""
        has_rows = self.rows > 0
        return float((self.right[has_rows] / self.rows[has_rows]).mean())

    def micro_f1(self) -> float:
        """Return F1 of the counts of all classes together."""
        return float(2 * self.right.sum() / max(int(self.predicted.sum() + self.rows.sum()), 1))

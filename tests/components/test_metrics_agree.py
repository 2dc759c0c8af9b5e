"""The metrics of wsmetrics against scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wsmetrics.metrics import make_metrics
from wsshards import terms

pytestmark = [pytest.mark.run, pytest.mark.smoke]
RELATIVE = 1e-12


def _logits(rows: int, columns: int, seed: int) -> Any:
    return np.round(np.random.default_rng(seed).normal(size=(rows, columns)), 1)  # with ties


def _measure(task: str, outputs: int, answers: Any, targets: Any) -> dict[str, float]:
    metrics = make_metrics(task, outputs)
    for start in range(0, len(targets), 64):
        metrics.add(answers[start : start + 64], targets[start : start + 64])
    return metrics.compute()


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("form", ["logits", "probabilities"])
def test_classification(classes: int, form: str) -> None:
    from scipy.special import softmax
    from sklearn import metrics as sk

    logits = _logits(500, classes, classes)
    shares = softmax(logits, axis=1)
    targets = np.random.default_rng(1).integers(0, classes, 500)
    ours = _measure(terms.CLASSIFICATION, classes, logits if form == "logits" else shares, targets)
    predicted = shares.argmax(1)
    macro: dict[str, Any] = {"average": "macro", "zero_division": 0}
    if classes == 2:
        scores = logits[:, 1] - logits[:, 0] if form == "logits" else shares[:, 1]
        area = sk.roc_auc_score(targets, scores)
        precision = sk.average_precision_score(targets, scores)
    else:
        area = sk.roc_auc_score(targets, shares, multi_class="ovr")
        precision = sk.average_precision_score(np.eye(classes)[targets], shares, average="macro")
    expected = {
        "loss": sk.log_loss(targets, shares),
        "accuracy": sk.accuracy_score(targets, predicted),
        "precision": sk.precision_score(targets, predicted, **macro),
        "recall": sk.recall_score(targets, predicted, **macro),
        "f1": sk.f1_score(targets, predicted, **macro),
        "auroc": area,
        "balanced_accuracy": sk.balanced_accuracy_score(targets, predicted),
        "average_precision": precision,
        "rows": 500.0,
    }
    assert ours == pytest.approx(expected, rel=RELATIVE)


def test_class_without_rows() -> None:
    from sklearn import metrics as sk

    answers = np.eye(4)[[0, 1, 2, 2, 0]]  # nothing is of class 2 and nothing is said to be of class 3
    targets = np.array([0, 1, 1, 0, 0])
    ours = _measure(terms.CLASSIFICATION, 4, answers, targets)
    assert ours["f1"] == pytest.approx(sk.f1_score(targets, answers.argmax(1), average="macro"), rel=RELATIVE)
    balanced = np.mean([2 / 3, 1 / 2])  # of the two classes that have rows
    assert ours["balanced_accuracy"] == pytest.approx(balanced, rel=RELATIVE)


@pytest.mark.parametrize("targets", [1, 3])
def test_regression(targets: int) -> None:
    from sklearn import metrics as sk

    random = np.random.default_rng(targets)
    wanted = random.normal(size=(500, targets)) * 3.0 + 100.0
    if targets > 1:
        wanted[:, 1] = 7.5
    answers = wanted + random.normal(size=wanted.shape)
    expected = {
        "loss": sk.mean_squared_error(wanted, answers),
        "mse": sk.mean_squared_error(wanted, answers),
        "rmse": sk.root_mean_squared_error(wanted, answers),
        "mae": sk.mean_absolute_error(wanted, answers),
        "r2": sk.r2_score(wanted, answers),
        "rows": 500.0,
    }
    assert _measure(terms.REGRESSION, targets, answers, wanted) == pytest.approx(expected, rel=RELATIVE)


@pytest.mark.parametrize("form", ["logits", "probabilities"])
def test_multi_label(form: str) -> None:
    from scipy.special import expit
    from sklearn import metrics as sk

    logits = _logits(500, 4, 9)
    shares = expit(logits)
    wanted = np.random.default_rng(2).integers(0, 2, (500, 4), dtype=np.uint8)
    answers = logits if form == "logits" else shares
    predicted = (shares >= 0.5).astype(int)
    expected = {
        "loss": np.mean([sk.log_loss(wanted[:, c], shares[:, c]) for c in range(4)]),
        "accuracy": sk.accuracy_score(wanted, predicted),
        "f1": sk.f1_score(wanted, predicted, average="macro"),
        "f1_micro": sk.f1_score(wanted, predicted, average="micro"),
        "auroc": sk.roc_auc_score(wanted, answers, average="macro"),
        "average_precision": sk.average_precision_score(wanted, answers, average="macro"),
        "rows": 500.0,
    }
    assert _measure(terms.MULTI_LABEL, 4, answers, wanted) == pytest.approx(expected, rel=RELATIVE)

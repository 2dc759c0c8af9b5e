from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from wsmetrics import rank_scores
from wsmetrics.exact_sum import ExactSum, square_exactly
from wsmetrics.metrics import make_metrics
from wsmetrics.names import (
    METRICS,
    choose_headline,
    describe_uninformed,
    goal,
    is_better,
    metrics_with_goal,
)
from wsmetrics.rank_scores import RankScores
from wsshards import terms

Rows = tuple[Any, Any]
ROWS = 211


def _softmax(logits: Any) -> Any:
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def _rows(case: str, seed: int = 0) -> tuple[str, int, Rows]:
    """A task, its number of outputs, and rows of it; scores have ties."""
    random = np.random.default_rng(seed)
    logits = np.round(random.normal(size=(ROWS, 5)), 2)
    if case == "logits":
        return terms.CLASSIFICATION, 5, (logits.astype(np.float32), random.integers(0, 5, ROWS))
    if case == "probabilities":
        return terms.CLASSIFICATION, 5, (_softmax(logits), random.integers(0, 4, ROWS))
    if case == "binary":
        return terms.CLASSIFICATION, 2, (_softmax(logits[:, :2]), random.integers(0, 2, ROWS))
    if case == "regression":
        targets = random.normal(size=(ROWS, 3)) * [1.0, 1e6, 1e-3] + [0.0, 1e9, 5.0]
        return terms.REGRESSION, 3, (targets + random.normal(size=(ROWS, 3)), targets)
    if case == "multi_label":
        return terms.MULTI_LABEL, 5, (logits, random.integers(0, 2, (ROWS, 5), dtype=np.uint8))
    tokens = random.integers(0, 7, (ROWS, 4))
    return terms.LANGUAGE_MODEL, 7, (random.normal(size=(ROWS, 4, 7)).astype(np.float32), tokens)


CASES = ["logits", "probabilities", "binary", "regression", "multi_label", "tokens"]


def _measure(case: str, cuts: list[int] | None = None, **options: Any) -> dict[str, float]:
    task, outputs, (answers, targets) = _rows(case)
    metrics = make_metrics(task, outputs, **options)
    for part in np.split(np.arange(ROWS), cuts or []):
        metrics.add(answers[part], targets[part])
    return metrics.compute()


@pytest.mark.parametrize("case", CASES)
def test_metrics_do_not_depend_on_how_rows_are_cut_and_merged(case: str) -> None:
    whole = _measure(case)
    task, outputs, (answers, targets) = _rows(case)
    assert set(whole) <= set(METRICS[task])
    for seed in range(12):
        random = np.random.default_rng(seed)
        cuts = np.sort(random.integers(0, ROWS, random.integers(1, 40))).tolist()
        assert _measure(case, cuts) == whole
        ranks = [make_metrics(task, outputs) for _ in range(random.integers(1, 6))]
        for part in np.split(random.permutation(ROWS), cuts):
            ranks[random.integers(0, len(ranks))].add(answers[part], targets[part])
        together = make_metrics(task, outputs)
        together.merge(pickle.loads(pickle.dumps(rank.state())) for rank in ranks)
        assert together.compute() == whole


@pytest.mark.parametrize("case", CASES)
def test_counted_scores_do_not_depend_on_how_rows_are_cut(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = _measure(case)
    monkeypatch.setattr(rank_scores, "MAX_SCORES", 100)
    whole = _measure(case)
    assert _measure(case, [7, 90, 91]) == whole
    task, outputs, (answers, targets) = _rows(case)
    ranks = [make_metrics(task, outputs) for _ in range(40)]
    for number, rank in enumerate(ranks):
        rank.add(answers[number::40], targets[number::40])
    together = make_metrics(task, outputs)
    together.merge(rank.state() for rank in ranks)
    assert together.compute() == whole
    assert whole == pytest.approx(exact, abs=5e-4)  # pairs in one step of 2**22 / columns are ties


@pytest.mark.parametrize("case", ["logits", "multi_label", "tokens"])
def test_said_and_seen_logits_count_the_same(case: str) -> None:
    assert _measure(case, logits=True) == _measure(case)


def test_sum_is_exact() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=3_000) * 10.0 ** random.integers(-300, 300, 3_000)
    values = np.concatenate([values, -values[:1_500], [5e-324, 2.0**-1060, 0.0, -0.0, 1.7e308]])
    total = ExactSum()
    total.add(values)
    assert total.divided(7) == float(sum(map(Fraction, values.tolist())) / 7)
    assert math.fsum(values) == total.divided(1)
    total.add(np.array([np.inf]))
    assert total.divided(3) == math.inf
    total.add(np.array([-np.inf, 1.0]))
    assert math.isnan(total.divided(3))
    large = ExactSum()
    large.add(np.full(4, 1.7e308))
    assert large.divided(1) == math.inf
    assert large.divided(4) == 1.7e308


def test_squares_are_exact() -> None:
    values = np.random.default_rng(1).normal(size=500) * 1e9
    for value, square, rest in zip(values.tolist(), *square_exactly(values), strict=True):
        assert Fraction(value) ** 2 == Fraction(float(square)) + Fraction(float(rest))


def test_constant_target() -> None:
    """As scikit-learn's `r2_score`: 1 if every prediction is right, else 0; nothing of one row."""
    for value in (0.1, 1e9 + 0.3, 1e-200):
        for shift, expected in ((0.0, 1.0), (0.5, 0.0)):
            metrics = make_metrics(terms.REGRESSION, 1)
            metrics.add(np.full(9, value + shift), np.full((9, 1), value))
            assert metrics.compute()["r2"] == expected
    single = make_metrics(terms.REGRESSION, 1)
    single.add([1.0], [2.0])
    assert single.compute() == {"loss": 1.0, "mse": 1.0, "rmse": 1.0, "mae": 1.0, "rows": 1.0}


def test_regression_loss_is_in_standard_deviations() -> None:
    metrics = make_metrics(terms.REGRESSION, 2, target_deviation=(2.0, 10.0))
    metrics.add([[2.0, 10.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]])
    assert metrics.compute()["loss"] == 0.5
    assert metrics.compute()["mse"] == 26.0


@pytest.mark.parametrize("task", terms.TASKS)
def test_no_rows(task: str) -> None:
    assert make_metrics(task, 2).compute() == {"rows": 0.0}


def test_padding_does_not_count() -> None:
    outputs = np.zeros((1, 3, 4))
    outputs[0, :, 2] = 1.0
    metrics = make_metrics(terms.LANGUAGE_MODEL, 4, padding=0)
    metrics.add(outputs, [[2, 0, 0]])
    assert metrics.compute() == {
        "loss": pytest.approx(0, abs=1e-9),
        "perplexity": pytest.approx(1),
        "accuracy": 1.0,
        "rows": 1.0,
    }


def test_losses_may_be_added_instead_of_outputs() -> None:
    task, outputs, (answers, targets) = _rows("tokens")
    logs = np.log(_softmax(answers.astype(np.float64)))
    losses = -np.take_along_axis(logs, targets[..., None], -1).reshape(-1)
    metrics: Any = make_metrics(task, outputs)
    metrics.add_losses(losses, (answers.argmax(-1) == targets).reshape(-1), rows=ROWS)
    assert metrics.compute() == pytest.approx(_measure("tokens"), rel=1e-12)


def test_bits_per_byte_are_of_bytes() -> None:
    for vocabulary, said, expected in ((256, None, True), (300, None, False), (256, False, False)):
        metrics = make_metrics(terms.LANGUAGE_MODEL, vocabulary, byte_tokens=said)
        metrics.add(np.zeros((1, 2, vocabulary)), [[1, 2]])
        assert ("bits_per_byte" in metrics.compute()) is expected


def test_undefined_areas_are_left_out() -> None:
    one_class = make_metrics(terms.CLASSIFICATION, 2)
    one_class.add([[0.2, 0.8]], [1])
    assert "auroc" not in one_class.compute()
    diverged = make_metrics(terms.CLASSIFICATION, 2, logits=True)
    diverged.add([[np.nan, 0.8], [1.0, 2.0]], [1, 0])
    assert math.isnan(diverged.compute()["loss"])
    assert "auroc" not in diverged.compute()
    many = make_metrics(terms.CLASSIFICATION, 101)
    many.add(np.eye(101), np.arange(101))
    assert "auroc" not in many.compute()


def test_decisions_have_neither_loss_nor_area() -> None:
    metrics: Any = make_metrics(terms.CLASSIFICATION, 3)
    metrics.add_decisions([0, 1, 1], [0, 1, 2])
    assert set(metrics.compute()) == {
        "accuracy", "balanced_accuracy", "precision", "recall", "f1", "rows",
    }  # fmt: skip
    labels: Any = make_metrics(terms.MULTI_LABEL, 2)
    labels.add_decisions([[0, 1], [1, 1]], [[0, 1], [1, 0]])
    assert labels.compute() == {"accuracy": 0.5, "f1": pytest.approx(5 / 6), "f1_micro": 0.8, "rows": 2.0}


def test_certain_scores_keep_their_order() -> None:
    """As float32 both probabilities are 1; the ranks still tell them apart."""
    metrics = make_metrics(terms.CLASSIFICATION, 3, logits=True)
    metrics.add(np.array([[20, 0, 0], [25, 0, 0]], np.float32), [1, 0])
    assert metrics.compute()["auroc"] == 1.0
    ranks = RankScores(1)
    ranks.add(np.array([[0.1], [0.4], [0.4], [0.9]]), np.array([[0], [1], [0], [1]]))
    assert ranks.means()["auroc"] == 0.875


def test_curve_of_ranks() -> None:
    ranks = RankScores(1)
    ranks.add(np.array([[0.1], [0.4], [0.35], [0.8]]), np.array([[0], [0], [1], [1]]))
    false, true = ranks.curve()
    assert list(zip(false.tolist(), true.tolist(), strict=True)) == [
        (1.0, 1.0), (0.5, 1.0), (0.5, 0.5), (0.0, 0.5), (0.0, 0.0),
    ]  # fmt: skip


def _rank(scores: list[float], positive: list[int]) -> RankScores:
    ranks = RankScores(1)
    ranks.add(np.array(scores, np.float32)[:, None], np.array(positive)[:, None])
    return ranks


def _f1(threshold: float, scores: Any, positive: Any) -> float:
    answers = scores >= threshold
    return float(2 * (answers & positive).sum() / (answers.sum() + positive.sum()))


@pytest.mark.parametrize("kept", [1 << 24, 100])
def test_threshold_has_the_largest_f1_of_all(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_scores, "MAX_SCORES", kept)
    for seed in range(20):
        random = np.random.default_rng(seed)
        scores = np.round(random.beta(1, 6, 300), 2).astype(np.float32)
        positive = random.random(300) < 0.3 * scores + 0.02
        chosen = _rank(scores.tolist(), positive.tolist()).best_threshold()
        assert chosen is not None
        best = max(_f1(each, scores, positive) for each in [0.5, *np.unique(scores)])
        assert _f1(chosen, scores, positive) == pytest.approx(best, rel=1e-12)


def test_of_equally_good_thresholds_the_nearest_to_one_half_is_chosen() -> None:
    assert _rank([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]).best_threshold() == 0.5
    assert _rank([0.125, 0.25, 0.375], [0, 1, 1]).best_threshold() == 0.1875
    # Above 0.25, above 0.875 and at 0.5 alike; the last is one half itself.
    assert _rank([0.25, 0.75, 0.875], [1, 1, 1]).best_threshold() is None
    assert _rank([0.25, 0.625, 0.75, 0.875], [0, 1, 0, 0]).best_threshold() == 0.5
    assert _rank([], []).best_threshold() is None
    assert _rank([math.nan, 0.5], [0, 1]).best_threshold() is None


def test_threshold_is_of_the_second_of_two_classes() -> None:
    two: Any = make_metrics(terms.CLASSIFICATION, 2, logits=True)
    two.add(np.array([[0, -4], [0, -2], [0, -1]], np.float32), [0, 1, 1])
    assert 1 / (1 + math.exp(4)) < two.best_threshold() < 1 / (1 + math.exp(2))
    three: Any = make_metrics(terms.CLASSIFICATION, 3)
    three.add(np.eye(3), [0, 1, 2])
    assert three.best_threshold() is None


def test_goals() -> None:
    for task in terms.TASKS:
        assert set(metrics_with_goal(task)) == set(METRICS[task]) - {"rows"}
    assert goal("auroc") == "maximize"
    assert goal("rmse") == "minimize"
    with pytest.raises(ValueError, match="'rows' is neither"):
        goal("rows")
    better: Callable[..., bool] = is_better
    assert better("loss", 0.1, 0.2)
    assert not better("loss", 0.2, 0.2)
    assert not better("loss", 0.15, 0.2, min_delta=0.1)
    assert better("accuracy", 0.9, 0.8)
    assert better("accuracy", 0.1, None)
    assert better("accuracy", 0.1, math.nan)
    assert not better("accuracy", math.nan, None)


def _evaluated(share: float, classes: int) -> dict[str, float]:
    measured = dict.fromkeys(METRICS[terms.CLASSIFICATION], 0.5) | {
        f"recall_{n}": 0.5 for n in range(classes)
    }
    return measured | {"recall_at_threshold": 0.5, "constant_accuracy_no": share}


def test_the_headline_follows_from_the_share_of_the_largest_class() -> None:
    assert choose_headline(_evaluated(0.93, 2)) == ["average_precision", "accuracy", "loss"]
    assert choose_headline(_evaluated(0.8, 3)) == ["balanced_accuracy", "accuracy", "loss"]
    assert choose_headline(_evaluated(0.79, 2)) == ["accuracy", "loss"]
    decisions = {name: value for name, value in _evaluated(0.93, 2).items() if name != "average_precision"}
    assert choose_headline(decisions)[0] == "balanced_accuracy"
    assert choose_headline({"rmse": 2.0, "r2": 0.5}) == ["r2", "rmse"]
    constant = {"accuracy": "the constant answer `no` gets 0.93"}
    assert describe_uninformed(_evaluated(0.93, 2)) == constant
    for classes, guess in (("no", "yes"), "0.07"), (("maybe", "no"), "0.93"):
        metrics = {f"recall_{name}": 0.5 for name in classes} | {"constant_accuracy_no": 0.93}
        assert describe_uninformed(metrics) == constant | {"average_precision": f"a guess gets {guess}"}
    assert describe_uninformed(_evaluated(0.79, 2)) == describe_uninformed({}) == {}

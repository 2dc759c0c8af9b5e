"""Paired differences of two models: against scipy and statsmodels, by properties, and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wsmetrics.metrics import make_metrics
from wspaired import pairs as pairs_module
from wspaired.difference import Difference, make_difference, mcnemar
from wspaired.pairs import Pairs, count_sums
from wspaired.rules import parse_guards, parse_rule
from wspaired.statistics import Rows, Subject, can_measure, find_statistic, holds_logits, list_metrics
from wspaired.units import MAX_UNITS, assign_units
from wsshards import terms
from wsshards.errors import UserError

Array = Any
LETTERS = Subject(terms.CLASSIFICATION, ("a", "b", "c"))
TWO = Subject(terms.CLASSIFICATION, ("no", "yes"))
LABELS = Subject(terms.MULTI_LABEL, ("x", "y", "z"))
NUMBERS = Subject(terms.REGRESSION, ("p", "q"), (5.0, 1.0), (2.0, 1.0))
ONE_NUMBER = Subject(terms.REGRESSION, ("p",), (5.0,), (2.0,))
TOKENS = Subject(terms.LANGUAGE_MODEL, padding=0, byte_tokens=True)
SUBJECTS = [LETTERS, TWO, LABELS, NUMBERS, ONE_NUMBER, TOKENS]


def _softmax(logits: Array) -> Array:
    shares = np.exp(logits)
    return shares / shares.sum(-1, keepdims=True)


def _draw(subject: Subject, rows: int, seed: int = 0) -> tuple[Rows, Rows]:
    """The answers of a champion and of a challenger that is a little better."""
    draw, size = np.random.default_rng(seed), len(subject.names)
    if subject.task == terms.CLASSIFICATION:
        targets = draw.choice(size, rows, p=np.arange(1, size + 1)[::-1] / (size * (size + 1) / 2))
        both = [_softmax(draw.normal(size=(rows, size)) + k * np.eye(size)[targets]) for k in (1.0, 1.3)]
        answers = [Rows(targets, outputs, outputs.argmax(1), threshold=0.3) for outputs in both]
    elif subject.task == terms.MULTI_LABEL:
        targets = (draw.random((rows, size)) < 0.3).astype(np.uint8)
        both = [1 / (1 + np.exp(1 - draw.normal(size=(rows, size)) - k * targets)) for k in (1.0, 1.4)]
        answers = [Rows(targets, outputs) for outputs in both]
    elif subject.task == terms.REGRESSION:
        targets = draw.normal(size=(rows, size)) * subject.deviation + subject.mean
        answers = [Rows(targets, targets + k * draw.normal(size=(rows, size))) for k in (1.0, 0.9)]
    else:
        targets = draw.integers(0, 5, (rows, 4))
        shown = np.eye(8)[targets]
        answers = [Rows(targets, _softmax(draw.normal(size=(rows, 4, 8)) + k * shown)) for k in (1.0, 1.3)]
    return answers[0], answers[1]


def _take(rows: Rows, chosen: Array) -> Rows:
    outputs = None if rows.outputs is None else rows.outputs[chosen]
    classes = None if rows.classes is None else rows.classes[chosen]
    return Rows(rows.targets[chosen], outputs, classes, rows.logits, rows.threshold)


def _pair(
    subject: Subject,
    answers: tuple[Rows, Rows],
    names: list[str] | None = None,
    groups: Array = None,
    batch: int = 97,
) -> Pairs:
    statistics = [find_statistic(name, subject) for name in names or list_metrics(subject)]
    rows = len(answers[0].targets)
    units, count = assign_units(rows, groups, count_sums(statistics))
    pairs = Pairs(statistics, count, rows, are_rows=groups is None)
    for start in range(0, rows, batch):
        chosen = np.arange(start, min(start + batch, rows))
        pairs.add(_take(answers[0], chosen), _take(answers[1], chosen), units[chosen])
    return pairs


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: f"{subject.task}-{len(subject.names)}")
def test_every_metric_is_the_one_that_evaluate_measures(subject: Subject) -> None:
    answers = _draw(subject, 300)
    pairs = _pair(subject, answers)
    outputs = len(subject.names) or 8
    for place, rows in enumerate(answers):
        metrics = make_metrics(
            subject.task,
            outputs,
            logits=False,
            target_deviation=subject.deviation,
            padding=subject.padding,
            byte_tokens=subject.byte_tokens,
        )
        metrics.add(rows.outputs, rows.targets)
        for name, value in metrics.compute().items():
            if name != "rows":
                assert pairs.measure(name)[place] == pytest.approx(value, rel=1e-10)


def test_metrics_of_one_class_and_from_a_threshold_on() -> None:
    champion, challenger = _draw(TWO, 300)
    pairs = _pair(TWO, (champion, challenger))
    targets, yes = challenger.targets, challenger.classes == 1
    assert pairs.measure("recall_yes")[1] == pytest.approx(yes[targets == 1].mean())
    assert pairs.measure("precision_yes")[1] == pytest.approx((targets[yes] == 1).mean())
    assert challenger.outputs is not None
    said = challenger.outputs[:, 1] >= 0.3
    assert pairs.measure("recall_at_threshold")[1] == pytest.approx(said[targets == 1].mean())
    numbers = _pair(NUMBERS, _draw(NUMBERS, 300))
    assert numbers.measure("rmse")[0] == pytest.approx(
        (numbers.measure("rmse_p")[0] + numbers.measure("rmse_q")[0]) / 2
    )


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: f"{subject.task}-{len(subject.names)}")
def test_what_does_not_matter_changes_no_bit(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "REPLICATES", 60)
    champion, challenger = _draw(subject, 200)
    straight = _pair(subject, (champion, challenger))
    shuffled = np.random.default_rng(3).permutation(200)
    mixed = _pair(subject, (_take(champion, shuffled), _take(challenger, shuffled)), batch=31)
    swapped = _pair(subject, (challenger, champion))
    same = _pair(subject, (champion, champion))
    for name in list_metrics(subject):
        difference = straight.compare(name)
        assert difference.standard_error > 0
        assert straight.compare(name) == difference
        again = mixed.compare(name)
        assert again.value == pytest.approx(difference.value, rel=1e-9)
        assert again.standard_error == pytest.approx(difference.standard_error, rel=1e-9)
        assert again.discordant == difference.discordant
        other = swapped.compare(name)
        assert other.value == -difference.value
        assert other.standard_error == pytest.approx(difference.standard_error, rel=1e-12)
        assert other.p_value == pytest.approx(difference.p_value, rel=1e-9)
        tie = same.compare(name)
        assert tie.is_tie
        assert (tie.discordant, tie.p_value) == (0, 1.0)


@pytest.mark.parametrize("subject", [TWO, NUMBERS], ids=["two", "numbers"])
def test_parts_that_are_merged_are_the_whole(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "REPLICATES", 60)
    champion, challenger = _draw(subject, 200)
    names = list_metrics(subject)
    statistics = [find_statistic(name, subject) for name in names]
    parts = []
    for chosen in (np.arange(80, 200), np.arange(80)):
        parts.append(Pairs(statistics, 200, 200, are_rows=True))
        parts[-1].add(_take(champion, chosen), _take(challenger, chosen), chosen)
    parts[0].merge(parts[1])
    whole = _pair(subject, (champion, challenger))
    for name in names:
        assert parts[0].compare(name) == whole.compare(name)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (0, 0, 1.0),
        (0, 5, 2 / 2**5),
        (0, 6, 2 / 2**6),
        (3, 4, 1.0),
        (10, 14, 0.5412561893463135),  # statsmodels 0.15
        (13, 13, 0.8445192674729399),
        (20, 40, 0.014171388254012323),
        (400, 250, 5.0e-9),
    ],
)
def test_mcnemar_of_values_known_by_heart(first: int, second: int, expected: float) -> None:
    assert mcnemar(first, second) == mcnemar(second, first) == pytest.approx(expected, rel=1e-1)
    if expected > 1e-8:
        assert mcnemar(first, second) == pytest.approx(expected, rel=1e-12)


def test_what_follows_from_a_standard_error() -> None:
    difference = make_difference(0.01, 0.004, rows=1000, units=1000, discordant=30, won=(10, 20))
    assert difference.low == pytest.approx(0.01 - 1.959964 * 0.004, abs=1e-8)
    assert difference.high == pytest.approx(0.01 + 1.959964 * 0.004, abs=1e-8)
    assert difference.smallest_visible == pytest.approx(2.801585 * 0.004, abs=1e-8)
    assert difference.lower_bound(0.95) == pytest.approx(0.01 - 1.644854 * 0.004, abs=1e-8)
    few = make_difference(0.0, 0.0, rows=200, units=200, discordant=0, won=(0, 0))
    assert few.is_tie
    assert few.smallest_visible == 6 / 200  # fewer discordant rows are no difference to the exact test
    assert make_difference(0.5, 0.0, rows=9, units=9, discordant=9).p_value == 0.0


def test_rows_of_one_group_count_once() -> None:
    champion, challenger = _draw(TWO, 600)
    groups = np.repeat(np.arange(60, dtype=np.uint64) * 2**40, 10)
    grouped = _pair(TWO, (champion, challenger), ["accuracy"], groups).compare("accuracy")
    assert (grouped.rows, grouped.units) == (600, 60)
    copies = np.repeat(np.arange(60), 10)  # every row of a group is the same
    same = _take(champion, copies), _take(challenger, copies)
    once = _pair(TWO, (_take(champion, np.arange(60)), _take(challenger, np.arange(60))), ["accuracy", "f1"])
    many = _pair(TWO, same, ["accuracy", "f1"], groups)
    for name in ("accuracy", "f1"):
        single, repeated = once.compare(name), many.compare(name)
        assert repeated.value == pytest.approx(single.value, abs=1e-12)
        assert repeated.standard_error == pytest.approx(single.standard_error, rel=1e-9)
    naive = _pair(TWO, same, ["accuracy"]).compare("accuracy")
    assert naive.standard_error < single.standard_error


def test_more_rows_than_units_are_joined() -> None:
    units, count = assign_units(25_000, None, 4)
    assert count == MAX_UNITS
    assert np.ptp(np.bincount(units)) <= 1
    assert assign_units(50, None, 4)[1] == 50
    assert assign_units(25_000, None, 30_000)[1] < 300  # sums of 10,000 classes
    champion, challenger = _draw(TWO, 25_000)
    difference = _pair(TWO, (champion, challenger), ["accuracy"]).compare("accuracy")
    hits = [(rows.classes == rows.targets).astype(float) for rows in (champion, challenger)]
    exact = (hits[1] - hits[0]).std(ddof=1) / math.sqrt(25_000)
    assert difference.standard_error == pytest.approx(exact, rel=0.03)
    assert difference.units == difference.rows == 25_000


def test_of_very_many_scores_some_units_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = _draw(TWO, 3000)
    monkeypatch.setattr(pairs_module, "REPLICATES", 400)
    whole = _pair(TWO, answers, ["auroc"]).compare("auroc")
    monkeypatch.setattr(pairs_module, "_SCORES", 1000)
    part = _pair(TWO, answers, ["auroc"])
    assert part._ranks["auroc"].size == 2000
    assert part.compare("auroc").standard_error == pytest.approx(whole.standard_error, rel=0.2)


def test_a_late_logit_and_classes_alone() -> None:
    champion, _ = _draw(LETTERS, 5)
    assert champion.outputs is not None
    assert not holds_logits(LETTERS, champion.outputs, champion.targets)
    assert holds_logits(LETTERS, np.log(champion.outputs), champion.targets)
    assert not holds_logits(LABELS, np.array([[0.0, 1.0, 0.3]]), np.zeros((1, 3)))
    assert holds_logits(LABELS, np.array([[0.0, 1.1, 0.3]]), np.zeros((1, 3)))
    padded = np.array([[[0.0, 0.0], [0.5, 0.5]]])
    assert not holds_logits(TOKENS, padded, np.array([[0, 1]]))  # the first token only fills the row
    alone = Rows(champion.targets, None, champion.classes)
    assert can_measure(find_statistic("f1", LETTERS), alone)
    assert not can_measure(find_statistic("auroc", LETTERS), alone)
    logits = Rows(champion.targets, np.log(champion.outputs) + 3, champion.classes, logits=True)
    pairs = _pair(LETTERS, (champion, logits), ["loss", "auroc", "accuracy"])
    for name in ("loss", "auroc", "accuracy"):
        assert pairs.measure(name)[0] == pytest.approx(pairs.measure(name)[1], rel=1e-9)


@pytest.mark.parametrize(
    ("name", "subject", "help_"),
    [
        ("acuracy", TWO, "did you mean `accuracy`"),
        ("recall_yse", TWO, "did you mean `recall_yes`"),
        ("rmse", TWO, "its metrics are `loss`, `accuracy`"),
        ("rmse_p", ONE_NUMBER, "did you mean `rmse`"),
        ("bits_per_byte", Subject(terms.LANGUAGE_MODEL), "its metrics are `loss`, `perplexity`, `accuracy`"),
        ("recall_at_threshold", LETTERS, "its metrics are `loss`, `accuracy`"),
    ],
)
def test_a_metric_that_evaluate_does_not_have(name: str, subject: Subject, help_: str) -> None:
    with pytest.raises(UserError, match=f"`{name}` is not a metric of this") as caught:
        find_statistic(name, subject)
    assert help_ in str(caught.value.help)


def _difference(value: float, error: float) -> Difference:
    return make_difference(value, error, rows=1000, units=1000, discordant=10)


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("better", 0.85, True),
        ("better", 0.84, False),
        ("better", -1.0, False),
        ("standard_errors 2", 2.01, True),
        ("standard_errors 2", 1.99, False),
        ("not_worse 0.5", -0.5 + 1.65, True),
        ("not_worse 0.5", -0.5 + 1.64, False),
        ("significant 0.95", 1.65, True),
        ("significant 0.95", 1.64, False),
        ("significant 0.5", 0.0, False),
        ("newest", -9.0, True),
    ],
)
def test_a_rule_asks_for_a_number_of_standard_errors(text: str, value: float, holds: bool) -> None:
    rule = parse_rule(text)
    assert str(rule) == text
    assert rule.holds(_difference(value, 1.0)) is holds
    assert rule.holds(_difference(math.nan, 1.0)) is (text == "newest")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beter", "is not a rule"),
        ("", "is not a rule"),
        ("better 2", "takes no number"),
        ("not_worse", "takes a number"),
        ("not_worse -1", "takes a number"),
        ("not_worse nan", "takes a number"),
        ("standard_errors 1e999", "takes a number"),
        ("significant 1", "from 0.5 to less than 1"),
    ],
)
def test_a_rule_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_rule(text)


def test_guards_are_metrics_with_rules() -> None:
    guards = parse_guards("recall_fraud: not_worse 0.01;\n size: not_worse 1e6; ")
    assert [(guard.metric, str(guard.rule)) for guard in guards] == [
        ("recall_fraud", "not_worse 0.01"), ("size", "not_worse 1e+06"),
    ]  # fmt: skip
    for text in ("recall", ": better", "recall: newest; x"):
        with pytest.raises(UserError):
            parse_guards(text)


# Against other libraries, whose import takes a second, and by simulation.

slow = [pytest.mark.run, pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cells() -> tuple[Rows, Rows]:
    return _draw(TWO, 800, seed=4)


class TestReferences:
    pytestmark = slow

    def test_the_test_of_mcnemar_is_that_of_statsmodels(self) -> None:
        tables = pytest.importorskip("statsmodels.stats.contingency_tables")
        for first in range(0, 40, 3):
            for second in range(0, 40, 4):
                expected = tables.mcnemar([[9, first], [second, 9]], exact=first + second < 25).pvalue
                assert mcnemar(first, second) == pytest.approx(expected, rel=1e-10)

    def test_the_error_of_a_mean_is_that_of_a_paired_test(self, cells: tuple[Rows, Rows]) -> None:
        from scipy import stats

        difference = _pair(TWO, cells, ["accuracy"]).compare("accuracy")
        hits = [(rows.classes == rows.targets).astype(float) for rows in cells]
        paired = stats.ttest_rel(hits[1], hits[0])
        assert difference.value / difference.standard_error == pytest.approx(paired.statistic, rel=1e-10)

    def test_the_error_by_groups_is_that_of_a_regression_with_clusters(
        self, cells: tuple[Rows, Rows]
    ) -> None:
        linear_model = pytest.importorskip("statsmodels.api")
        groups = np.random.default_rng(1).integers(0, 50, 800).astype(np.uint64)
        difference = _pair(TWO, cells, ["accuracy"], groups).compare("accuracy")
        hits = [(rows.classes == rows.targets).astype(float) for rows in cells]
        fit = linear_model.OLS(hits[1] - hits[0], np.ones(800)).fit(
            cov_type="cluster", cov_kwds={"groups": groups.astype(int)}
        )
        assert difference.value == pytest.approx(float(fit.params[0]), abs=1e-12)
        assert difference.standard_error == pytest.approx(float(fit.bse[0]), rel=1e-9)

    @pytest.mark.parametrize("name", ["f1", "auroc", "average_precision"])
    def test_the_error_of_other_metrics_is_that_of_another_bootstrap(
        self, cells: tuple[Rows, Rows], name: str
    ) -> None:
        from scipy import stats
        from sklearn import metrics

        targets = cells[0].targets
        measure: Callable[[Array, Array], float] = {
            "f1": lambda wanted, shares: metrics.f1_score(wanted, shares >= 0.5, average="macro"),
            "auroc": metrics.roc_auc_score,
            "average_precision": metrics.average_precision_score,
        }[name]
        shares = [rows.outputs[:, 1] for rows in cells if rows.outputs is not None]
        drawn = stats.bootstrap(
            (targets, *shares),
            lambda wanted, old, new: measure(wanted, new) - measure(wanted, old),
            paired=True,
            vectorized=False,
            n_resamples=500,
            method="basic",
            random_state=np.random.default_rng(2),
        )
        difference = _pair(TWO, cells, [name]).compare(name)
        assert difference.standard_error == pytest.approx(drawn.standard_error, rel=0.1)

    @pytest.mark.parametrize(
        ("subject", "name", "trials"),
        [
            (TWO, "accuracy", 600), (TWO, "auroc", 250), (TWO, "f1", 400),
            (NUMBERS, "r2", 400), (TOKENS, "perplexity", 400),
        ],
    )  # fmt: skip
    def test_the_interval_covers_the_truth_19_times_in_20(
        self, monkeypatch: pytest.MonkeyPatch, subject: Subject, name: str, trials: int
    ) -> None:
        monkeypatch.setattr(pairs_module, "REPLICATES", 150)
        truth = np.subtract(
            *_pair(subject, _draw(subject, 100_000, 99), [name], batch=5000).measure(name)[::-1]
        )
        truth = truth if find_statistic(name, subject).goal == "maximize" else -truth
        covered = 0
        for trial in range(trials):
            difference = _pair(subject, _draw(subject, 250, trial), [name], batch=250).compare(name)
            covered += difference.low <= truth <= difference.high
        assert 0.92 <= covered / trials <= 0.98

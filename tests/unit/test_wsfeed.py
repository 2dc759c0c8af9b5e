"""The statistics of a feed, their law of merging, the distances of two feeds, and what the gate says."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from wsfeed import distances
from wsfeed.feed import (
    CLASS,
    EDGES,
    Column,
    Feed,
    Layout,
    describe,
    feed_to_json,
    make_rank_error,
    read_feed,
    take_samples,
)
from wsfeed.gate import Finding, Part, judge, measure_drift, stop
from wsfeed.policy import CHECKS, THRESHOLDS, Policy, parse_policy
from wsfeed.tally import Copies, Sample, Tally
from wsshards.errors import UserError
from wsshards.manifest import FEED_NAME
from wsshards.terms import BOOLEAN, CATEGORY, DATE, NUMBER
from wssources.split import hash_rows, shuffle_keys

ALL = Policy(frozenset(), frozenset(CHECKS))
LAYOUT = [
    Layout("price", NUMBER, 0, 0),
    Layout("colour", CATEGORY, 0, 1, ("red", "green", "blue")),
    Layout("sold", DATE, 0, 2),
]


def make_rows(rows: int, seed: int = 0) -> Any:
    """Prices, of which some are missing, colours by number, and days with seconds."""
    rng = np.random.default_rng(seed)
    table = np.zeros((rows, 4), np.float32)
    table[:, 0] = np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(size=rows))
    table[:, 1] = np.where(rng.random(rows) < 0.1, np.nan, rng.integers(0, 3, rows))
    table[:, 2] = rng.integers(20_000, 20_100, rows)
    return table


def tally_rows(table: Any, batches: int = 1, *, first: int = 0, room: int = 1 << 16) -> Tally:
    tally = Tally((4, 0), [1], room)
    for rows in np.array_split(np.arange(len(table)), batches):
        keys, part = shuffle_keys(first + int(rows[0]), len(rows), 0) if len(rows) else [], table[rows]
        if len(rows):
            blocks = [part, np.empty((len(rows), 0))]
            tally.add(blocks, np.zeros(len(rows), np.int32), np.asarray(keys), hash_rows(part, 0))
    return tally


def describe_rows(tally: Tally) -> list[Column]:
    return describe(tally, LAYOUT, take_samples(tally, LAYOUT), {})


def test_statistics_are_those_of_numpy() -> None:
    table = make_rows(5000)
    tally = tally_rows(table, batches=7)
    price, colour, sold = describe_rows(tally)
    values = table[:, 0][~np.isnan(table[:, 0])].astype(float)
    assert price.missing == np.isnan(table[:, 0]).sum()
    assert (price.low, price.high) == (values.min(), values.max())
    assert price.mean == pytest.approx(values.mean())
    assert price.deviation == pytest.approx(values.std())
    assert price.edges == tuple(
        np.quantile(
            values, np.linspace(1, len(values), EDGES).astype(int) / len(values) - 1e-9, method="inverted_cdf"
        )
    )
    assert sum(price.counts) == len(values)
    below = [(values <= edge).sum() for edge in price.edges]
    assert np.cumsum(price.counts).tolist() == below
    names, counts = np.unique(table[:, 1][~np.isnan(table[:, 1])], return_counts=True)
    assert colour.values == {("red", "green", "blue")[int(n)]: c for n, c in zip(names, counts, strict=True)}
    assert colour.missing == np.isnan(table[:, 1]).sum()
    assert (sold.low, sold.high, sold.edges) == (table[:, 2].min(), table[:, 2].max(), ())
    distinct = len(np.unique(table[~np.isnan(table).any(axis=1)], axis=0))
    assert distinct <= (1 - tally.copies.share) * 5000
    assert tally.copies.is_exact


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=5), st.integers(1, 6), st.sampled_from([50, 300, 5000])
)
def test_tallies_of_parts_merge_into_that_of_the_whole(parts: list[int], batches: int, room: int) -> None:
    table = make_rows(sum(parts))
    ends = np.cumsum([0, *parts])
    tallies = [
        tally_rows(table[start:end], batches, first=int(start), room=room)
        for start, end in itertools.pairwise(ends)
    ]
    forwards, backwards = Tally((4, 0), [1], room), Tally((4, 0), [1], room)
    whole = tally_rows(table, room=room)
    for tally in tallies:
        forwards.merge(tally)
    for tally in reversed(tallies):
        backwards.merge(tally)
    for merged in (forwards, backwards):
        assert merged.rows == whole.rows
        assert describe_rows(merged) == describe_rows(whole)
        assert merged.copies.share == whole.copies.share
        assert merged.sample.rows == whole.sample.rows <= room


@given(st.permutations(range(40)))
def test_the_order_of_rows_has_no_effect_on_a_whole_sample(order: Sequence[int]) -> None:
    table = make_rows(40)
    before, after = (describe_rows(tally_rows(rows, 3)) for rows in (table, table[list(order)]))
    assert [replace(column, mean=0, deviation=0) for column in before] == [
        replace(column, mean=0, deviation=0) for column in after
    ]


def test_a_sample_is_bounded_and_within_its_error() -> None:
    values = np.random.default_rng(1).normal(size=(300_000, 1)).astype(np.float32)
    sample = Sample(2000, (1,))
    for start in range(0, len(values), 7000):
        part = values[start : start + 7000]
        sample.add(shuffle_keys(start, len(part), 3), [part])
        assert sample.rows <= 2000
    assert sample.rows > 1000
    assert not sample.is_whole
    distance = stats.ks_2samp(sample.blocks[0][:, 0], values[:, 0]).statistic
    assert distance < make_rank_error(sample) < 0.06


def test_copies_are_counted_or_estimated() -> None:
    exact, rough = Copies(), Copies(1000)
    values = np.arange(90_000, dtype=np.float32) // 3
    for part in np.array_split(values, 9):
        hashes = hash_rows(part[:, None], 0)
        exact.add(hashes)
        rough.add(hashes)
    assert exact.is_exact
    assert exact.share == pytest.approx(2 / 3)
    assert not rough.is_exact
    assert rough.share == pytest.approx(2 / 3, abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), min_size=2, max_size=12))
def test_psi_is_the_divergence_of_both_directions(pairs: list[tuple[int, int]]) -> None:
    before, now = (np.array(counts) for counts in zip(*pairs, strict=True))
    p, q = ((counts + 0.5) / (counts + 0.5).sum() for counts in (before, now))
    expected = stats.entropy(p, q) + stats.entropy(q, p)
    assert distances.population_stability_index(before, now) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 1000), st.integers(20, 400), st.integers(20, 400), st.floats(0, 1))
def test_kolmogorov_smirnov_is_that_of_scipy(seed: int, n: int, m: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=n).round(1), rng.normal(shift, size=m).round(1)
    edges = np.unique(np.concatenate([first, second]))
    counts = [(sample[:, None] == edges).sum(axis=0) for sample in (first, second)]
    distance, chance = distances.kolmogorov_smirnov(*counts)
    assert distance == pytest.approx(stats.ks_2samp(first, second).statistic)
    assert chance == pytest.approx(special.kolmogorov(distance * np.sqrt(n * m / (n + m))), abs=1e-9)


@given(st.lists(st.tuples(st.integers(20, 900), st.integers(20, 900)), min_size=2, max_size=40))
def test_chi_square_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    before, now = (np.array(counts) for counts in zip(*pairs, strict=True))
    expected = stats.chi2_contingency([before, now], correction=False)
    if (expected.expected_freq < distances.LEAST_EXPECTED).any():
        return
    statistic, chance = distances.chi_square(before, now)
    assert statistic == pytest.approx(expected.statistic)
    assert chance == pytest.approx(expected.pvalue, rel=1e-9, abs=1e-300)


def test_rare_categories_count_as_one() -> None:
    before, now = np.array([500, 400, 1, 0, 2]), np.array([480, 420, 0, 3, 1])
    pooled = [[500, 400, 3], [480, 420, 4]]
    statistic, _ = distances.chi_square(before, now)
    table = np.array(pooled)
    expected = table.sum(axis=0) * 0.5 * table.sum() / table.sum()
    assert statistic == pytest.approx(((table - expected) ** 2 / expected).sum(), rel=1e-2)
    assert distances.chi_square(np.zeros(3), now[:3]) == (0.0, 1.0)


def test_two_shares_are_compared_as_statsmodels_does() -> None:
    pooled = (0.02 * 1000 + 0.05 * 400) / 1400
    expected = 0.03 / np.sqrt(pooled * (1 - pooled) * (1 / 1000 + 1 / 400))
    assert distances.proportion_deviate(0.02, 1000, 0.05, 400) == pytest.approx(expected)
    assert distances.proportion_deviate(0, 10, 0, 10) == distances.proportion_deviate(0, 0, 1, 9) == 0


# What the gate says.
READING = {"label": "y", "features": "", "column_types": "", "task": "auto"}


def make_part(columns: Mapping[str, Any], label: Any = None, where: str = "", **facts: Any) -> Part:
    """A part from lists of numbers, with None for a missing one, and texts."""
    described, samples = [], {}
    everything = {**columns, **({} if label is None else {"y": label})}
    rows = len(next(iter(everything.values())))
    for name, values in everything.items():
        present = [value for value in values if value is not None]
        missing = len(values) - len(present)
        if present and isinstance(present[0], str):
            kind = CLASS if name == "y" else CATEGORY
            counts = {value: present.count(value) for value in sorted(set(present))}
            described.append(Column(name, kind, missing, values=counts))
            continue
        kind = BOOLEAN if present and isinstance(present[0], bool) else NUMBER
        block = np.array([[np.nan if value is None else value] for value in values], np.float32)
        tally = Tally((1, 0), [], 1 << 16)
        keys = shuffle_keys(0, rows, 0)
        tally.add([block, np.empty((rows, 0))], np.zeros(rows, np.int32), keys, keys)
        layout = [Layout(name, kind, 0, 0)]
        samples |= take_samples(tally, layout)
        described += describe(tally, layout, samples, {})
    split = len(columns)
    feed = Feed(rows, columns=tuple(described[:split]), labels=tuple(described[split:]), reading=READING)
    return Part(replace(feed, **facts), samples, where)


NORMAL = np.random.default_rng(5).normal(10, 2, 2000).tolist()
BASE = {"price": NORMAL, "colour": ["red", "blue"] * 1000}
LABEL = ["no"] * 1800 + ["yes"] * 200
REFERENCE = make_part(BASE, LABEL).feed


def judge_parts(parts: list[Part], reference: Feed | None, policy: Policy) -> list[Finding]:
    distances = measure_drift(parts[-1], reference) if reference is not None else {}
    return judge(parts, reference, policy, distances)


def find(columns: Mapping[str, Any], label: Any = LABEL, policy: Policy = ALL, **facts: Any) -> list[str]:
    part = make_part(columns, label, **facts)
    return [f"{each.check}: {each.message}" for each in judge_parts([part], REFERENCE, policy)]


def test_nothing_is_said_of_the_same_feed_or_of_another_draw() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(1000, 3000))
        columns = {"price": rng.normal(10, 2, rows), "colour": rng.choice(["red", "blue"], rows).tolist()}
        assert find(columns, rng.choice(["no", "yes"], rows, p=[0.9, 0.1]).tolist()) == []


def test_a_heavy_tail_is_not_out_of_range() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        before = make_part({"price": rng.pareto(1, 2000).tolist()}).feed
        part = make_part({"price": rng.pareto(1, 1500).tolist()})
        assert judge_parts([part], before, ALL) == []


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"colour": BASE["colour"]}, "schema: the feed has no column `price`, which the champion's feed has"),
        ({**BASE, "size": NORMAL}, "schema: column `size` is new: the champion's feed has no such column"),
        (
            {**BASE, "price": ["a", "b"] * 1000},
            "schema: `price` holds categories, in the champion's feed numbers",
        ),
        (
            {**BASE, "price": [None] * 760 + NORMAL[760:]},
            "nulls: `price` has 38 % missing cells, the champion's feed had 0 %",
        ),
        (
            {**BASE, "price": [1000.0] * 20 + NORMAL[20:]},
            (
                "range: `price` is from 3.433 to 1000, and 1 % of its values are far outside of the"
                " champion's feed, from 3.433 to 16.22"
            ),
        ),
        (
            {**BASE, "colour": ["red", "mauve"] * 1000},
            "categories: 50 % of `colour` are values such as `mauve`, which the champion's feed has not",
        ),
        (
            {**BASE, "price": [value + 2 for value in NORMAL]},
            "drift: `price` has drifted: its mean is 12.05, in the champion's feed 10.05 (PSI 0.97)",
        ),
        (
            {**BASE, "colour": ["red"] * 1600 + ["blue"] * 400},
            "drift: `colour` has drifted: `red` is 80 %, in the champion's feed 50 % (PSI 0.42)",
        ),
    ],
)
def test_each_check_has_its_sentence(columns: Mapping[str, Any], sentence: str) -> None:
    assert find(columns) == [sentence]


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        (
            ["no"] * 1500 + ["yes"] * 500,
            "75 % of the rows have class `no` of label `y`, in the champion's feed 90 %",
        ),
        (["no"] * 2000, "no row has class `yes` of label `y`, in the champion's feed 10 % had it"),
        ([*LABEL[:-1], "maybe"], "class `maybe` of label `y` is new, with 0.05 % of the rows"),
    ],
)
def test_labels_that_have_shifted(label: list[str], sentence: str) -> None:
    (message,) = find(BASE, label)
    assert message.startswith("labels: ")
    assert message.endswith(sentence)


def test_rows_are_few_copies_or_left_out() -> None:
    few = {name: values[:900] for name, values in BASE.items()}
    (message,) = find(few, LABEL[-900:], policy=Policy(frozenset(["empty"])))
    assert message == "empty: the feed has 900 rows, the champion's feed had 2,000"
    (message,) = find(BASE, copies=0.41)
    assert message == "duplicates: 41 % of the rows are copies of others, in the champion's feed 0 %"
    (message,) = find(BASE, left_out=500)
    assert message.startswith("nulls: 20 % of the rows cannot be used")


def test_other_columns_that_were_chosen_are_no_fault() -> None:
    chosen = {**READING, "features": "colour"}
    assert find({"colour": BASE["colour"]}, reading=chosen) == []


def test_what_is_unknown_is_not_said() -> None:
    reference = replace(REFERENCE, columns=(replace(REFERENCE.columns[1], others=5),))
    part = make_part({"colour": ["mauve"] * 2000}, LABEL)
    assert judge_parts([part], reference, Policy(frozenset(["categories", "drift"]))) == []


def test_newer_rows_are_judged_first() -> None:
    week = make_part({**BASE, "price": [None] * 2000}, LABEL, where=" in the 2,000 rows after 2026-03-02")
    whole = make_part({name: [*values, *values] for name, values in BASE.items()}, [*LABEL, *LABEL])
    assert [finding.message for finding in judge_parts([week, whole], REFERENCE, ALL)] == [
        "`price` has 100 % missing cells in the 2,000 rows after 2026-03-02, the champion's feed had 0 %"
    ]


def test_a_first_feed_is_judged_by_itself() -> None:
    part = make_part({"a": [None] * 50, "b": [1.0] * 50}, [3.0] * 50, copies=0.98)
    assert [finding.message for finding in judge_parts([part], None, ALL)] == ["all 50 rows are equal"]
    assert judge_parts([make_part({"b": [1.0, 2.0]}, [3.0, 4.0])], None, ALL) == []


def test_a_check_stops_only_if_it_is_to() -> None:
    part = make_part({**BASE, "price": [None] * 2000}, LABEL)
    findings = judge_parts([part], REFERENCE, ALL)
    stop(findings, ALL)
    with pytest.raises(UserError, match=r"has 100 % .* take `nulls` out of `feed_stop`"):
        stop(findings, parse_policy("nulls, drift", "", ""))


def test_a_policy_is_parsed() -> None:
    policy = parse_policy("schema, nulls", "none", "psi: 0.3; nulls: 0.1")
    assert policy == Policy(frozenset(["schema", "nulls"]), frozenset(), {"psi": 0.3, "nulls": 0.1})
    assert (policy.threshold("psi"), policy.threshold("rows")) == (0.3, THRESHOLDS["rows"])
    for stops, thresholds, message in (
        ("nuls", "", "`feed_stop` has `nuls`, which is not a check"),
        ("", "psy: 1", "`feed_thresholds` has `psy`, which is not a threshold"),
        ("", "psi: high", "`feed_thresholds` has `high` for `psi`"),
        ("", "psi", "`feed_thresholds` has `` for `psi`"),
    ):
        with pytest.raises(UserError) as caught:
            parse_policy(stops, "", thresholds)
        assert caught.value.message == message


def test_a_feed_is_what_was_written(tmp_path: Path) -> None:
    part = make_part({**BASE, "price": [None, *NORMAL[1:]]}, LABEL)
    (tmp_path / FEED_NAME).write_text(feed_to_json(part.feed, [], measure_drift(part, REFERENCE)))
    assert read_feed(tmp_path) == read_feed(tmp_path / FEED_NAME) == part.feed
    document = json.loads((tmp_path / FEED_NAME).read_text())
    assert set(document["drift"]) == {"price", "colour", "y"}
    for text, message in (
        (json.dumps({**document, "rows": 3}), "its own sha256 does not fit it"),
        ("{}", "its own sha256 does not fit it"),
        ("[]", "has no statistics of a feed"),
        ("[" * 100_000, "has no statistics of a feed"),
    ):
        (tmp_path / FEED_NAME).write_text(text)
        with pytest.raises(UserError, match=message):
            read_feed(tmp_path)
    with pytest.raises(UserError, match="cannot read"):
        read_feed(tmp_path / "gone")

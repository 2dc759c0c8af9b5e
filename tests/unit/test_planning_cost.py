"""What a training costs with evictions."""

from __future__ import annotations

import math
import random
from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from worldsize.facts.prices import Price
from worldsize.planning import cost
from worldsize.planning.cost import Evictions
from worldsize.planning.resilience import LOW_PRIORITY_SECONDS

seconds = st.floats(1.0, 3e6)
between = st.floats(10.0, 1e9)
saving = st.none() | st.floats(0.0, 600.0)
instances = st.integers(1, 1000)


def price(amount: float, tier: str = "dedicated", currency: str = "USD", region: str = "eastus") -> Price:
    return Price(amount, currency, region, tier, date(2026, 6, 18), "x")  # type: ignore[arg-type]


@given(seconds, instances, st.floats(0.01, 1000))
def test_without_evictions_the_cost_is_the_plain_product(time: float, count: int, amount: float) -> None:
    found = cost.cost_training(time, count, price(amount))
    assert found.amount == pytest.approx(time / 3600 * count * amount)
    assert (found.seconds, found.hours, found.currency, found.expected_loss) == (time, time / 3600, "USD", 0)


@given(seconds, st.tuples(between, between), saving, st.floats(1.0, 1e5), st.floats(0.0, 600.0))
def test_more_evictions_are_never_cheaper(
    time: float, means: tuple[float, float], save: float | None, interval: float, restart: float
) -> None:
    often, rarely = (
        cost.cost_training(time, 4, price(2.0), Evictions(mean, save, interval, restart))
        for mean in sorted(means)
    )
    assert often.amount is not None
    assert rarely.amount is not None
    assert often.amount >= rarely.amount * (1 - 1e-9)
    assert rarely.seconds >= time
    assert 0 <= rarely.expected_loss <= often.expected_loss + 1e-9 <= 1 + 1e-9


@given(seconds, between, between, st.floats(0.0, 600.0))
def test_nor_are_they_with_the_best_interval(time: float, one: float, other: float, save: float) -> None:
    """Daly's interval is an approximation of the best one, so that this holds to a part of it."""
    often, rarely = (cost.expected_seconds(time, Evictions(mean, save)) for mean in sorted((one, other)))
    assert often >= rarely * (1 - 0.01)


@given(seconds, between, st.floats(0.0, 60.0))
def test_checkpoints_at_the_best_interval_are_worth_their_time(time: float, mean: float, save: float) -> None:
    assume(save * 20 < mean)
    with_them = cost.expected_seconds(time, Evictions(mean, save))
    without = cost.expected_seconds(time, Evictions(mean))
    assert with_them <= without * 1.02 + 2 * save + 2


@given(seconds, st.floats(1.0, 1e5))
def test_rare_evictions_cost_only_the_checkpoints(time: float, interval: float) -> None:
    found = cost.expected_seconds(time, Evictions(1e15, 30.0, interval))
    assert found == pytest.approx(time if time <= interval else time * (interval + 30) / interval, rel=1e-6)


@pytest.mark.parametrize("evictions", [Evictions(3000.0), Evictions(3000.0, restart_seconds=200.0)])
def test_a_job_that_starts_anew_takes_as_long_as_one_that_is_played(evictions: Evictions) -> None:
    """Against a simulation: the renewal formula is not ours to believe."""
    work, chance = 4000.0, random.Random(7)
    segment = work + evictions.restart_seconds
    total = 0.0
    for _ in range(20_000):
        while (until := chance.expovariate(1 / evictions.mean_seconds)) < segment:
            total += until
        total += segment
    played = total / 20_000
    # The formula charges a start after each interruption only.
    after_first = cost.expected_seconds(work, evictions)
    assert after_first == pytest.approx(played - evictions.restart_seconds, rel=0.03)


def test_a_training_that_never_finishes() -> None:
    found = cost.cost_training(1e7, 8, price(1.0), Evictions(60.0))
    assert (found.seconds, found.amount, found.expected_loss) == (math.inf, math.inf, 1.0)


def test_an_unknown_price_leaves_the_time() -> None:
    found = cost.cost_training(3600, 2, None, Evictions(36_000.0, 5.0))
    assert (found.amount, found.currency) == (None, None)
    assert 3600 < found.seconds < 3800


def test_every_instance_ends_the_step() -> None:
    assert cost.mean_seconds_between_evictions(8) == LOW_PRIORITY_SECONDS / 8


def test_low_priority_without_checkpoints_can_cost_more() -> None:
    dedicated, low = price(4.0), price(1.0, "low_priority")
    evictions = Evictions(cost.mean_seconds_between_evictions(4))  # 9,000 s
    assert not cost.low_priority_costs_more(9_000, 4, dedicated, low, evictions)  # e − 1 times as long
    assert cost.low_priority_costs_more(36_000, 4, dedicated, low, evictions)  # 13 times as long
    saved = Evictions(evictions.mean_seconds, 5.0)
    assert not cost.low_priority_costs_more(36_000, 4, dedicated, low, saved)


def test_prices_of_two_currencies_or_regions_do_not_compare() -> None:
    evictions = Evictions(60.0)
    for low in (price(9.0, currency="EUR"), price(9.0, region="westeurope")):
        assert not cost.low_priority_costs_more(36_000, 4, price(1.0), low, evictions)


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf])
def test_what_is_not_a_training_is_refused(time: float) -> None:
    with pytest.raises(ValueError, match="are not a training"):
        cost.cost_training(time, 1, None)


@pytest.mark.parametrize(
    "evictions",
    [
        Evictions(0.0),
        Evictions(math.inf),
        Evictions(math.nan),
        Evictions(1.0, -1.0),
        Evictions(1.0, 1.0, 0.0),
    ],
)
def test_times_out_of_range_are_refused(evictions: Evictions) -> None:
    with pytest.raises(ValueError, match="above 0"):
        cost.cost_training(1.0, 1, None, evictions)

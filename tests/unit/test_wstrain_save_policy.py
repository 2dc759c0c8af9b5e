from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wstrain.checkpoint.save_policy import Pace, SavePolicy, best_interval, lost_fraction
from wstrain.health.rank_status import RankStatus


@given(cost=st.floats(0.01, 60), between=st.floats(600, 1e7))
def test_no_other_interval_loses_noticeably_less(cost: float, between: float) -> None:
    best = best_interval(cost, between)
    least = min(lost_fraction(best * factor, cost, between) for factor in (0.5, 0.8, 0.95, 1.05, 1.25, 2))
    assert lost_fraction(best, cost, between) <= least * 1.0005 + 1e-12


def test_a_checkpoint_that_costs_little_is_youngs_square_root() -> None:
    assert best_interval(1, 14_400) == pytest.approx(math.sqrt(2 * 14_400), rel=0.01)
    assert lost_fraction(best_interval(1, 14_400), 1, 14_400) == pytest.approx(0.0117, abs=1e-4)


def test_what_costs_more_than_it_saves_and_what_never_ends() -> None:
    assert best_interval(1000, 400) == 400
    assert 0.9 < lost_fraction(400, 1000, 400) <= 1
    assert lost_fraction(1e6, 1, 1) == 1.0


def test_by_steps_and_epochs() -> None:
    save_policy = SavePolicy([4, 6])
    assert [step for step in range(1, 13) if save_policy.is_due(step, Pace())] == [4, 6, 8, 12]


def test_an_interval_that_follows_from_what_was_measured() -> None:
    save_policy = SavePolicy(between=14_400)
    assert not save_policy.is_due(10_000, Pace())  # nothing is known yet
    assert save_policy.steps_between_saves(Pace(step=1.0)) == 169  # a cost of a second is assumed
    pace = Pace(step=0.5, cost=0.01, written=1.0)
    assert save_policy.steps_between_saves(pace) == 34
    assert next(step for step in range(1, 100) if save_policy.is_due(step, pace)) == 34
    save_policy.mark_saved(34)
    assert not save_policy.is_due(67, pace)
    assert save_policy.is_due(68, pace)
    assert (
        save_policy.steps_between_saves(Pace(step=0.5, cost=0.01, written=60.0)) == 120
    )  # the disk is the limit


def test_notices_are_heard_alike() -> None:
    ranks = [RankStatus(), RankStatus(stop=True), RankStatus(failed=True, cost=2.0, written=5.0)]
    means = [sum(each) / 3 for each in zip(*(rank.numbers() for rank in ranks), strict=True)]
    for rank in ranks:
        rank.receive(means, [1.0, 3.0], 0.25)
        heard = rank.group
        assert (heard.stop, heard.failed, heard.writing) == (True, True, False)
        assert heard.pace == Pace(0.25, pytest.approx(2.0), pytest.approx(5.0))
        rank.receive(means, [5.0], 0.25)
        assert rank.take_mean_loss() == 3.0
        assert rank.take_mean_loss() is None

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wstrain.lr_schedule import DECAYS, Decay, LearningRateSchedule


def test_warm_up_climbs_from_the_reference_rate_to_the_scaled_one() -> None:
    schedule = LearningRateSchedule(0.05, 0.4, warmup_steps=10, total_steps=60)
    assert schedule.rate(0) == 0.05
    assert schedule.rate(5) == pytest.approx(0.225)
    assert schedule.rate(10) == 0.4


def test_cosine_ends_near_zero_and_is_halfway_in_the_middle() -> None:
    schedule = LearningRateSchedule(0.05, 0.4, warmup_steps=10, total_steps=60)
    assert schedule.rate(35) == pytest.approx(0.2)
    assert schedule.rate(60) == pytest.approx(0.0, abs=1e-12)


def test_step_decay_multiplies_at_each_milestone() -> None:
    schedule = LearningRateSchedule(0.1, 0.1, 0, 100, "step", milestones=(30, 60), factor=0.1)
    assert [schedule.rate(step) for step in (29, 30, 59, 60)] == pytest.approx([0.1, 0.01, 0.01, 0.001])


def test_constant_stays() -> None:
    assert LearningRateSchedule(0.1, 0.2, 0, 10, "constant").rate(9) == 0.2


def test_warm_up_stable_decay_falls_as_one_minus_the_root_in_the_last_steps() -> None:
    schedule = LearningRateSchedule(0.1, 0.4, 10, 100, "warmup_stable_decay", decay_fraction=0.2)
    assert [schedule.rate(step) for step in (10, 79, 80)] == [0.4, 0.4, 0.4]
    assert schedule.rate(85) == pytest.approx(0.4 * (1 - 0.5))  # √(5/20)
    assert schedule.rate(100) == 0
    # A longer training has the same rates until it falls.
    longer = LearningRateSchedule(0.1, 0.4, 10, 200, "warmup_stable_decay", decay_fraction=0.2)
    assert all(schedule.rate(step) == longer.rate(step) for step in range(80))


@given(
    rates=st.tuples(st.floats(1e-6, 1), st.floats(1e-6, 1)),
    steps=st.tuples(st.integers(0, 50), st.integers(1, 50)),
    step=st.integers(0, 100),
    decay=st.sampled_from(DECAYS),
    fraction=st.floats(0.01, 0.99),
)
def test_the_rate_stays_between_zero_and_the_larger_rate(
    rates: tuple[float, float], steps: tuple[int, int], step: int, decay: Decay, fraction: float
) -> None:
    schedule = LearningRateSchedule(*rates, *steps, decay, decay_fraction=fraction)
    rate = schedule.rate(step)
    assert 0 <= rate <= max(rates) * (1 + 1e-12)

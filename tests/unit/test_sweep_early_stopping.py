"""Early termination, with the examples of "Hyperparameter tuning a model" (Microsoft Learn)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.running.engine.sweep import best_value, is_worse, should_stop
from worldsize.running.model.task import EarlyTermination, Goal

NOBODY: frozenset[str] = frozenset()


def stopped(policy: EarlyTermination, goal: Goal, histories: dict[str, list[float]]) -> set[str]:
    return {name for name in histories if should_stop(policy, goal, name, histories, frozenset(histories))}


def test_bandit_stops_what_is_worse_than_the_best_by_more_than_its_slack() -> None:
    policy = EarlyTermination("bandit", evaluation_interval=10, slack_factor=0.2)
    flat = {"best": [0.8] * 10, "within": [0.67] * 10, "outside": [0.66] * 10}  # 0.8 / 1.2 = 0.6667
    assert stopped(policy, "maximize", flat) == {"outside"}
    losses = {"best": [1.0] * 10, "within": [1.2] * 10, "outside": [1.21] * 10}
    assert stopped(policy, "minimize", losses) == {"outside"}
    amount = EarlyTermination("bandit", slack_amount=0.1)
    assert stopped(amount, "maximize", {"a": [0.8], "b": [0.71], "c": [0.69]}) == {"c"}


def test_slack_stays_slack_below_zero() -> None:
    policy = EarlyTermination("bandit", slack_factor=0.5)
    assert stopped(policy, "minimize", {"a": [-10.0], "b": [-5.0], "c": [-4.9]}) == {"c"}
    assert stopped(policy, "maximize", {"a": [-10.0], "b": [-13.3], "c": [-13.4]}) == {"c"}


def test_median_stopping_compares_the_best_value_with_the_median_of_the_averages() -> None:
    policy = EarlyTermination("median_stopping", evaluation_interval=1, delay_evaluation=5)
    histories = {"a": [5.0] * 5, "b": [3.0] * 5, "c": [9.0, 4.0, 4.0, 4.0, 4.0]}  # averages 5, 3, 5
    assert stopped(policy, "minimize", histories) == set()
    assert stopped(policy, "maximize", histories) == {"b"}
    assert stopped(policy, "maximize", {name: values[:4] for name, values in histories.items()}) == set()


def test_truncation_stops_the_given_percentage_of_the_lowest() -> None:
    policy = EarlyTermination(
        "truncation_selection", evaluation_interval=1, delay_evaluation=5, truncation_percentage=20
    )
    histories = {f"t{number}": [float(number)] * 5 for number in range(10)}
    assert stopped(policy, "maximize", histories) == {"t0", "t1"}
    assert stopped(policy, "minimize", histories) == {"t8", "t9"}
    few = {name: histories[name] for name in ("t0", "t1", "t2", "t3")}
    assert stopped(policy, "maximize", few) == set()  # 20 % of four is less than one


def test_finished_trials_can_be_left_out_of_a_truncation() -> None:
    histories = {"done": [0.0], "a": [1.0], "b": [2.0]}
    everybody = EarlyTermination("truncation_selection", truncation_percentage=34)
    running_only = EarlyTermination(
        "truncation_selection", truncation_percentage=50, exclude_finished_jobs=True
    )
    assert not should_stop(everybody, "maximize", "a", histories, frozenset({"a", "b"}))
    assert should_stop(running_only, "maximize", "a", histories, frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("interval", "delay", "due"),
    [(1, 0, [0, 1, 2, 3, 4, 5, 6]), (2, 3, [0, 0, 0, 0, 4, 4, 6]), (5, 0, [0, 0, 0, 0, 0, 5, 5])],
)
def test_a_policy_applies_at_multiples_of_its_interval_from_its_delay_on(
    interval: int, delay: int, due: list[int]
) -> None:
    policy = EarlyTermination("bandit", evaluation_interval=interval, delay_evaluation=delay, slack_amount=1)
    assert [policy.last_due(logged) for logged in range(7)] == due


def test_who_has_not_come_so_far_is_not_compared() -> None:
    policy = EarlyTermination("bandit", evaluation_interval=2, slack_amount=0.1)
    assert not should_stop(policy, "maximize", "slow", {"slow": [0.5, 0.5], "new": [0.9]}, NOBODY)
    assert should_stop(policy, "maximize", "slow", {"slow": [0.5, 0.5], "new": [0.9, 0.9]}, NOBODY)


def test_nan_is_worse_than_any_number() -> None:
    assert is_worse(math.nan, 1e9, "minimize")
    assert not is_worse(1e9, math.nan, "minimize")
    assert not is_worse(math.nan, math.nan, "minimize")
    assert best_value([math.nan, 2.0, 1.0], "maximize") == 2.0
    for policy in (EarlyTermination("bandit", slack_amount=1), EarlyTermination("median_stopping")):
        assert stopped(policy, "minimize", {"a": [1.0], "b": [math.nan], "c": [1.0]}) == {"b"}


histories = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), min_size=1
)


@given(histories, st.sampled_from(["bandit", "median_stopping", "truncation_selection"]), st.booleans())
def test_the_best_trial_is_never_stopped(found: dict[str, list[float]], kind: str, minimize: bool) -> None:
    goal: Goal = "minimize" if minimize else "maximize"
    policy = EarlyTermination(kind, slack_factor=0.1, truncation_percentage=99)  # type: ignore[arg-type]
    top = (min if minimize else max)(best_value(values, goal) for values in found.values())
    winners = {name for name, values in found.items() if best_value(values, goal) == top}
    assert not winners <= stopped(policy, goal, found)

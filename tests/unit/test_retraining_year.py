"""A simulated year: 52 firings, 200 seeds, decided by `decide` and promoted by the rules of `compare`."""

from __future__ import annotations

import numpy as np
import pytest
from promotion_year import RULES, WEEKS, Setting, simulate

from worldsize.retraining.decide import decide
from worldsize.retraining.facts import Attempt, Facts, Fingerprint
from worldsize.retraining.policy import Policy

SEEDS = 200
WEEK = 7 * 86400.0
QUIET, FAILING = 0.1, 0.05  # shares of weeks without new data, and of trainings that are evicted

SETTINGS = {
    "300 rows": Setting(rows=300),
    "1000 rows": Setting(),
    "10000 rows": Setting(rows=10000),
    "drift, 300 rows": Setting(rows=300, drift=0.001),
    "drift, 1000 rows": Setting(drift=0.001),
    "drift, 10000 rows": Setting(rows=10000, drift=0.001),
    "little luck": Setting(luck=0.003),
    "much luck": Setting(luck=0.02),
    "broken weeks": Setting(drift=0.001, broken=0.05),
    "two metrics": Setting(drift=0.001, guarded=True),
    "fast": Setting(drift=0.005, luck=0.003),
}


def live_a_year(seed: int, policy: Policy) -> tuple[list[bool], list[Attempt]]:
    """The weeks that train, by `decide` alone, and the attempts; each firing is looked at twice."""
    rng = np.random.default_rng(seed)
    data, attempts, trained = 0, list[Attempt](), list[bool]()
    for week in range(WEEKS):
        data += week == 0 or rng.random() >= QUIET
        now, fails = week * WEEK, week > 0 and rng.random() < FAILING
        begun = 0
        for look in range(2):
            action = decide(
                Facts(Fingerprint("code", {"sales": str(data)}), tuple(attempts)), policy, now + look
            )
            if action.kind not in ("train", "continue"):
                continue
            begun += 1
            again = attempts.pop() if action.kind == "continue" else None
            run, starts = (again.run, again.starts + 1) if again else (f"run-{week:02}", 1)
            attempts.append(
                Attempt(
                    run,
                    Fingerprint("code", {"sales": str(data)}),
                    "failed" if fails else "finished",
                    firing=now,
                    began=now,
                    ended=now,
                    starts=starts,
                    cause="eviction" if fails else None,
                )
            )
        assert begun <= 1
        trained.append(begun == 1 and not fails)
    return trained, attempts


@pytest.fixture(scope="module")
def trained() -> np.ndarray:
    return np.array([live_a_year(seed, Policy())[0] for seed in range(SEEDS)])


def test_a_year_trains_once_for_each_change(trained: np.ndarray) -> None:
    successes = [live_a_year(seed, Policy())[1] for seed in range(20)]
    for attempts in successes:
        finished = [attempt.fingerprint.data["sales"] for attempt in attempts if attempt.state == "finished"]
        assert len(finished) == len(set(finished))
    # Nine of ten weeks bring data, of which one in twenty fails, and is made up for where no new data comes.
    assert 0.80 < trained.mean() < 0.90


def measure_distances(setting: Setting, trained: np.ndarray) -> dict[str, float]:
    return {name: simulate(rule, setting, trained).distance for name, rule in RULES.items()}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_default_rule_is_close_to_the_best(name: str, trained: np.ndarray) -> None:
    distances = measure_distances(SETTINGS[name], trained)
    if name != "fast":
        assert distances["better"] <= min(distances.values()) + 0.05, distances


@pytest.mark.run
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_default_rule_is_close_to_the_best_in_many_years(name: str, trained: np.ndarray) -> None:
    distances = measure_distances(SETTINGS[name], np.tile(trained, (10, 1)))
    if name != "fast":
        assert distances["better"] <= min(distances.values()) + 0.05, distances


def test_a_guard_keeps_the_second_metric(trained: np.ndarray) -> None:
    open_, guarded = (Setting(drift=0.001, luck=0.02, guarded=guarded) for guarded in (False, True))
    lost = [simulate(RULES["better"], setting, trained).second_lost for setting in (open_, guarded)]
    assert lost[1] < lost[0]


def test_a_broken_week_is_not_promoted(trained: np.ndarray) -> None:
    setting = Setting(rows=10000, broken=0.05)
    assert simulate(RULES["better"], setting, trained).worse < 0.05  # in a year
    assert simulate(RULES["threshold"], setting, trained).worse > 10

"""The formulas of the plan, one by one, and the laws that hold for every number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.base.wording import plural, round_noise, show_number
from worldsize.planning import rates, topology, train
from worldsize.planning.model import Launcher, Rule
from worldsize.planning.rates import Adam, batch_growth
from wstrain.scaling import default_warmup_epochs, split_batch

sizes = st.integers(1, 10_000)


@pytest.mark.parametrize(
    ("launcher", "devices", "processes"),
    [("pytorch", 4, 4), ("mpi", 8, 8), ("pytorch", 0, 1), ("tensorflow", 4, 1), ("none", 4, 1)],
)
def test_processes_per_instance(launcher: Launcher, devices: int, processes: int) -> None:
    assert topology.count_processes(launcher, devices) == processes


@pytest.mark.parametrize(
    ("launcher", "instances", "processes", "devices", "world"),
    [
        ("pytorch", 2, 4, 4, 8),
        ("mpi", 4, 8, 8, 32),
        ("tensorflow", 2, 1, 4, 8),  # replicas, not processes
        ("tensorflow", 2, 1, 0, 2),
        ("none", 3, 1, 4, 1),
    ],
)
def test_world_size(launcher: Launcher, instances: int, processes: int, devices: int, world: int) -> None:
    assert topology.count_ranks(launcher, instances, processes, devices) == world


@given(sizes, sizes)
def test_the_nearest_multiples_enclose_what_was_wanted(wanted: int, unit: int) -> None:
    found = train.nearest_multiples(wanted, unit)
    assert all(value > 0 and value % unit == 0 for value in found)
    if wanted % unit == 0:
        assert found == (wanted,)
    else:
        assert found[-1] - unit < wanted < found[-1]
        assert len(found) == (2 if wanted > unit else 1)


@given(sizes, sizes, sizes)
def test_a_split_is_exact_and_as_large_as_fits(per_rank: int, most: int, world: int) -> None:
    b, a = split_batch(per_rank, most)
    assert b <= most
    assert train.global_batch(b, a, world) == per_rank * world
    assert not any(per_rank % larger == 0 for larger in range(b + 1, min(per_rank, most) + 1))


def test_a_split_of_a_huge_prime_takes_no_time() -> None:
    assert split_batch(2**31 - 1, 2**31 - 2) == (1, 2**31 - 1)


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0)])
def test_a_split_of_nothing_is_refused(arguments: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        split_batch(*arguments)


def test_linear_and_sqrt_rates() -> None:
    assert rates.scale_learning_rate("linear", batch_growth(256, 32), 0.05) == 0.4
    assert rates.scale_learning_rate("linear", 3, 0.1) == 0.3
    assert rates.scale_learning_rate("sqrt", batch_growth(64, 16), 0.001) == 0.002
    assert rates.scale_learning_rate("none", 8, 0.05) == 0.05
    assert rates.scale_learning_rate("linear", batch_growth(128, 1024), 0.4) == 0.05


@given(st.floats(1e-9, 10), st.sampled_from(["linear", "sqrt", "none"]))
def test_nothing_changes_where_the_batch_stays(rate: float, rule: Rule) -> None:
    assert rates.scale_learning_rate(rule, 1, rate) == pytest.approx(rate, rel=1e-11)


betas = st.floats(0, 0.99999)


@given(betas, betas, st.floats(1e-12, 1e-3))
def test_the_sqrt_rule_is_the_identity_at_one(beta1: float, beta2: float, epsilon: float) -> None:
    adam = Adam(beta1, beta2, epsilon)
    offered = rates.scale_adam(adam, 1)
    for name in ("beta1", "beta2", "epsilon"):
        expected = getattr(adam, name)
        if name != "epsilon" and not rates.holds_for_beta(expected, 1):
            assert getattr(offered, name) is None
        else:
            assert getattr(offered, name) == pytest.approx(expected, rel=1e-9, abs=1e-11)


@given(st.floats(0.5, 0.9999), st.floats(1, 64), st.floats(1, 64))
def test_the_sqrt_rule_composes(beta: float, first: float, second: float) -> None:
    """Growing twice is growing once by the product, as long as every beta stays in range."""
    once = rates.scale_adam(Adam(beta, None, 1e-8), first * second)
    if not rates.holds_for_beta(beta, first * second) or once.beta1 is None:
        return
    twice = rates.scale_adam(rates.scale_adam(Adam(beta, None, 1e-8), first), second)
    assert twice.beta1 == pytest.approx(once.beta1, abs=1e-9)
    assert twice.epsilon == pytest.approx(once.epsilon, rel=1e-9)


def test_the_range_of_the_sqrt_rule_ends_at_kappa_ten() -> None:
    assert rates.holds_for_beta(0.9, 9.99)
    assert not rates.holds_for_beta(0.9, 10)
    assert rates.scale_adam(Adam(0.9, 0.999, 1e-8), 10).beta1 is None
    assert rates.scale_adam(Adam(0.9, 0.999, 1e-8), 4) == Adam(0.6, 0.996, 5e-9)
    assert rates.scale_adam(Adam(None, 0.99, 1e-8), 4) == Adam(None, 0.96, 5e-9)


@given(st.floats(0.001, 1), st.floats(0.1, 100), st.floats(1e-6, 1))
def test_weight_decay_keeps_the_averaging_time(decay: float, growth: float, rate: float) -> None:
    scaled = rates.scale_learning_rate("sqrt", growth, rate)
    kept = rates.scale_weight_decay(decay, growth, rate, scaled)
    assert growth / (scaled * kept) == pytest.approx(1 / (rate * decay), rel=1e-9)
    assert kept == pytest.approx(decay * math.sqrt(growth), rel=1e-9)


@pytest.mark.parametrize(
    ("rule", "growth", "epochs", "expected"),
    [
        ("linear", 8, 90, 5),
        ("linear", 8, 20, 2),
        ("linear", 8, 12, 1.2),
        ("linear", 8, None, 5),
        ("linear", 1, 90, 0),
        ("linear", 0.5, 90, 0),
        ("sqrt", 8, 90, 0),
        ("none", 8, 90, 0),
    ],
)
def test_default_warmup(rule: Rule, growth: float, epochs: float | None, expected: float) -> None:
    assert default_warmup_epochs(rule, growth, epochs) == expected


def test_steps() -> None:
    assert train.count_steps(1438, 256, 20, 2) == train.Steps(5, 100, 10)
    assert train.count_steps(None, 256, 20, 2) == train.Steps(None, None, None)
    assert train.count_steps(None, 256, 20, 0) == train.Steps(None, None, 0)
    assert train.count_steps(1438, 256, None, 2) == train.Steps(5, None, 10)
    assert train.count_steps(2405, 1024, 20, 0, drop_last=False) == train.Steps(3, 60, 0)
    assert train.count_steps(2048, 1024, 20, 0, drop_last=False) == train.Steps(2, 40, 0)
    assert train.count_steps(100, 256, 20, 0) == train.Steps(0, 0, 0)


@given(st.integers(1, 512), st.integers(0, 16), st.integers(0, 10**7))
def test_shards_are_even(world: int, workers: int, rows: int) -> None:
    per_rank = train.count_shards_per_rank(world, workers, rows)
    assert per_rank >= 1
    if rows >= world:
        assert per_rank * world <= rows
    assert train.count_shards_per_rank(world, workers, None) == max(workers, 1)


def test_numbers() -> None:
    assert round_noise(0.1 * 3) == 0.3
    assert [show_number(value) for value in (0.4, 256, 20.0, 1e-5, 1e20, "x", None)] == [
        "0.4",
        "256",
        "20",
        "1e-05",
        "1e+20",
        "x",
        "unknown",
    ]
    assert [plural(1, "instance"), plural(2, "process"), plural(0.5, "epoch")] == [
        "1 instance",
        "2 processes",
        "0.5 epochs",
    ]

"""Search spaces against the definitions in "Hyperparameter tuning a model" (Microsoft Learn)."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.azureml.sweep import SETTINGS, list_values
from worldsize.running.model.task import Parameter

positions = st.floats(0, 1, exclude_max=True)


def number(parameter: Parameter, position: float) -> float:
    value = parameter.at(position)
    assert isinstance(value, int | float)
    return value


@given(positions)
def test_a_uniform_value_is_linear_in_its_position(position: float) -> None:
    assert number(Parameter("x", "uniform", first=0.5, second=0.9), position) == 0.5 + (0.9 - 0.5) * position


@given(positions)
def test_a_quantised_value_is_a_multiple_and_whole_where_everything_is(position: float) -> None:
    value = Parameter("x", "quniform", first=10, second=50, q=5, whole=True).at(position)
    assert isinstance(value, int)
    assert value % 5 == 0
    assert 10 <= value <= 50
    value = number(Parameter("x", "quniform", first=0, second=1, q=0.1), position)
    assert value == round(round(value / 0.1) * 0.1, 12)


@given(positions)
def test_the_logarithm_of_a_loguniform_value_is_uniform(position: float) -> None:
    value = number(Parameter("x", "loguniform", first=-9, second=-2), position)
    assert math.log(value) == pytest.approx(-9 + 7 * position)
    value = number(Parameter("x", "loguniform", first=-3, second=2, base=10), position)
    assert math.log10(value) == pytest.approx(-3 + 5 * position)


@pytest.mark.parametrize(
    ("position", "expected"), [(0.5, 3.0), (0.8413447460685429, 5.0), (0.15865525393145707, 1.0)]
)
def test_a_normal_value_is_the_inverse_of_its_distribution(position: float, expected: float) -> None:
    assert number(Parameter("x", "normal", first=3, second=2), position) == pytest.approx(expected)
    log = number(Parameter("x", "lognormal", first=3, second=2), position)
    assert log == pytest.approx(math.exp(expected))
    assert Parameter("x", "qnormal", first=3, second=2, q=2, whole=True).at(position) in (
        0,
        2,
        4,
    )  # half to even
    assert number(Parameter("x", "normal", first=3, second=0), position) == 3


@given(positions)
def test_every_kind_gives_a_finite_value_at_every_position(position: float) -> None:
    for kind in SETTINGS:
        parameter = Parameter("x", kind, values=("a", "b"), first=0, second=3, q=0.5)
        value = parameter.at(position)
        assert value in ("a", "b") if kind == "choice" else math.isfinite(number(parameter, position))


def test_choices_and_randint_take_each_value_equally_often() -> None:
    grid = [index / 600 for index in range(600)]
    choice = [Parameter("x", "choice", values=(16, 32, "large")).at(position) for position in grid]
    assert [choice.count(value) for value in (16, 32, "large")] == [200, 200, 200]
    drawn = [Parameter("x", "randint", second=6).at(position) for position in grid]
    assert [drawn.count(value) for value in range(6)] == [100] * 6


def test_extremes_do_not_overflow() -> None:
    assert math.isfinite(number(Parameter("x", "loguniform", first=0, second=1e6), 0.999))
    low = number(Parameter("x", "normal", first=0, second=1), 0.0)
    assert low == NormalDist().inv_cdf(2.0**-53)


@pytest.mark.parametrize(
    ("distribution", "values"),
    [
        ({"type": "choice", "values": [16, "a"]}, [16, "a"]),
        ({"type": "randint", "upper": 3}, [0, 1, 2]),
        ({"type": "quniform", "min_value": 10, "max_value": 30, "q": 10}, [10, 20, 30]),
        ({"type": "quniform", "min_value": 0.1, "max_value": 0.3, "q": 0.1}, [0.1, 0.2, 0.3]),
        ({"type": "randint", "upper": 10**9}, None),
        ({"type": "quniform", "min_value": 1}, None),
        ({"type": "uniform", "min_value": 0, "max_value": 1}, None),
    ],
)
def test_values_are_listed_as_trials_draw_them(distribution: dict[str, object], values: object) -> None:
    assert list_values(distribution) == values

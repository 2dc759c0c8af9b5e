"""`worldsize.showing`: what every face of a run draws and writes alike."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.showing.curves import is_finite, join_curves, prepare_curves
from worldsize.showing.graph_layout import HEIGHT, WIDTH, place_steps

GRAPHS = st.integers(1, 12).flatmap(
    lambda size: st.dictionaries(
        st.integers(0, size).map(str), st.lists(st.integers(0, size).map(str), max_size=4), max_size=size
    )
)


@given(GRAPHS)
def test_steps_are_placed_apart_and_below_what_they_need(needs: dict[str, list[str]]) -> None:
    layout = place_steps(needs)
    assert layout.positions.keys() == needs.keys()
    places = list(layout.positions.values())
    for index, (x, y) in enumerate(places):
        assert 0 <= x <= layout.width - WIDTH
        assert 0 <= y <= layout.height - HEIGHT
        assert all(abs(x - left) >= WIDTH or abs(y - top) >= HEIGHT for left, top in places[:index])


@given(GRAPHS)
def test_arrows_point_down(needs: dict[str, list[str]]) -> None:
    order = list(needs)
    forward = {
        name: [each for each in wanted if each in order[: order.index(name)]]
        for name, wanted in needs.items()
    }
    layout = place_steps(forward)
    for name, wanted in forward.items():
        assert all(layout.positions[each][1] < layout.positions[name][1] for each in wanted)
    assert len(layout.paths) == sum(len(set(wanted)) for wanted in forward.values())


def test_a_long_chain_is_placed() -> None:
    chain = {str(number): [str(number + 1)] for number in range(5000)}
    assert len(place_steps({**chain, "5000": []}).positions) == 5001


def test_a_hundred_thousand_points_are_thinned_with_their_peaks() -> None:
    points = [(float(step), 1.0) for step in range(100_000)]
    points[54_321] = (54_321.0, 99.0)
    points[999] = (999.0, math.nan)
    curve = prepare_curves({"loss": points}, 500)["loss"]
    assert len(curve) <= 500
    assert (54_321.0, 99.0) in curve
    assert (curve[0], curve[-1]) == (points[0], points[-1])


def test_a_curve_has_two_steps() -> None:
    curves = {"one": [(1.0, 2.0)], "same": [(1.0, 2.0), (1.0, 3.0)], "two": [(1.0, 2.0), (2.0, 3.0)]}
    assert prepare_curves(curves, 500) == {"two": curves["two"]}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.7976931348623157e308, 10**400])
def test_what_cannot_be_drawn_is_not_finite(value: float) -> None:
    assert is_finite(1.0)
    assert not is_finite(value)


def test_what_mlflow_has_not_received_comes_from_the_reports() -> None:
    reported = {"loss": [(1.0, 9.0), (2.0, 8.0), (3.0, 7.0)], "own": [(1.0, 0.0), (2.0, 1.0)]}
    tracked = {"loss": [(3.0, 6.5), (4.0, 6.0)], "other": [(1.0, 0.0), (2.0, 1.0)]}
    joined = join_curves(reported, tracked)
    assert joined["loss"] == [(1.0, 9.0), (2.0, 8.0), (3.0, 6.5), (4.0, 6.0)]
    assert joined.keys() == {"loss", "own", "other"}

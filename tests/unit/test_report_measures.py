"""Measured speed, time and memory beside the predictions, and where they tell nothing of each other."""

from __future__ import annotations

import pytest

from worldsize.base.wording import format_seconds
from worldsize.planning.estimates.measured_case import describe_other_hardware
from worldsize.reporting.measures import compare_measures, measure_training
from worldsize.reporting.page import _render_quantities

SIZE = "Standard_NC96ads_A100_v4"
PLANNED = {
    "predicted_samples_per_second": "100",
    "predicted_samples_per_second_low": "80",
    "predicted_samples_per_second_high": "125",
    "predicted_cluster": f"2 x {SIZE}, 8 GPUs",
    "predicted_memory_bytes": "2000000000",
    "global_batch_size": "200",
    "total_steps": "50",
    "world_size": "8",
}
A100 = "NVIDIA A100 80GB PCIe"


def _report(step: int, seconds: float) -> dict[str, float]:
    return {"step": step, "trained_seconds": seconds}


def _compare(**parameters: str) -> dict[str, tuple[str, str, str, bool | None]]:
    trained = measure_training([_report(0, 1.0), _report(50, 151.0)])
    found = compare_measures(
        {**PLANNED, **parameters}, {}, {"samples_per_second": 66.6, "memory_peak_bytes": 2.6e9}, {}, trained
    )
    return {each.name: (each.planned, each.actual, each.note, each.differs) for each in found}


def test_time_and_memory_stand_beside_the_plan_with_its_interval() -> None:
    assert _compare(device=A100) == {
        "samples per second (median)": ("100 (80 to 125)", "66.6", "33 % below the plan", True),
        "time of a training step": ("2 s (1.6 s to 2.5 s)", "3 s", "50 % above the plan", True),
        "time of all training steps": (
            "1 min 40 s (1 min 20 s to 2 min 05 s)",
            "2 min 31 s",
            "51 % above the plan",
            True,
        ),
        "peak memory of a process": ("2.0 GB", "2.6 GB", "30 % above the plan", True),
    }


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"device": "cpu"}, "ran on CPU"),
        ({"device": "NVIDIA H200"}, "ran on H200, planned for A100-80GB-PCIe"),
        ({"device": A100, "world_size": "2"}, "planned for 8 processes"),
        ({}, "the hardware was not recorded"),
        ({"device": "abacus"}, "ran on abacus"),
    ],
)
def test_other_hardware_tells_nothing_of_the_plan(parameters: dict[str, str], why: str) -> None:
    found = _compare(**parameters)
    assert {note for _, _, note, _ in found.values()} == {f"not comparable: {why}"}
    assert not any(differs for *_, differs in found.values())
    assert all(planned and actual for planned, actual, *_ in found.values())


def test_a_measure_within_its_interval_is_not_marked() -> None:
    found = compare_measures({**PLANNED, "device": A100}, {}, {"samples_per_second": 81.0}, {}, None)
    speed = found[0]
    assert (speed.note, speed.differs) == ("within the interval", False)
    assert found[1].actual == "2.47 s"  # of the speed, where no report tells
    assert [each.actual for each in found[2:]] == ["", ""]
    assert "<mark>" not in _render_quantities(found[:2])


def test_restarts_and_damage_are_no_time_of_training() -> None:
    reports = [_report(1, 5.0), _report(11, 7.0), _report(6, 4.0), _report(16, 6.0)]
    assert measure_training(reports) == (20.0, 4.0, 13.0, 16.0)
    odd: list[dict[str, object]] = [{"step": "1", "trained_seconds": 1}, {"step": 2}, {"step": float("nan")}]
    assert measure_training([*odd, {"step": 3, "trained_seconds": float("inf")}]) is None
    assert measure_training([_report(5, 2.0)]) is None


def test_the_time_of_a_training_that_is_not_at_its_end_is_left_out() -> None:
    trained = measure_training([_report(1, 1.0), _report(40, 31.0)])
    found = compare_measures({**PLANNED, "device": A100}, {}, {}, {}, trained)
    assert (found[2].planned, found[2].actual, found[2].note) == (
        "1 min 40 s (1 min 20 s to 2 min 05 s)",
        "",
        "",
    )


def test_times_are_written_by_their_size() -> None:
    assert [format_seconds(each) for each in (0.0036, 2.514, 125.0)] == ["3.6 ms", "2.51 s", "2 min 05 s"]


def test_any_count_of_processes_is_right_where_none_was_planned() -> None:
    assert describe_other_hardware({"device": A100}, SIZE, None) == ""

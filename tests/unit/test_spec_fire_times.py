"""The next fire times of a cron expression, against the definition of its fields."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from worldsize.cli.explain import command
from worldsize.spec.cron import next_times

SATURDAY = datetime(2026, 11, 21, 9, 30)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 3 * * 1", ["11-23 03:00", "11-30 03:00", "12-07 03:00"]),
        ("*/20 9 * * *", ["11-21 09:40", "11-22 09:00", "11-22 09:20"]),
        ("15,45 8-9 * * SAT", ["11-21 09:45", "11-28 08:15", "11-28 08:45"]),
        ("30 9 * * *", ["11-22 09:30", "11-23 09:30", "11-24 09:30"]),
        ("0 12 1 6 *", ["11-21 12:00", "11-22 12:00", "11-23 12:00"]),  # day and month are ignored
        ("50/5 23 * * friday", ["11-27 23:50", "11-27 23:55", "12-04 23:50"]),
    ],
)
def test_next_times(expression: str, expected: list[str]) -> None:
    assert [f"{moment:%m-%d %H:%M}" for moment in next_times(expression, SATURDAY, 3)] == expected


@given(minute=st.integers(0, 59), hour=st.integers(0, 23), day=st.integers(0, 6))
def test_a_weekly_time_comes_once_a_week_and_never_in_the_past(minute: int, hour: int, day: int) -> None:
    times = next_times(f"{minute} {hour} * * {day}", SATURDAY)
    assert SATURDAY < times[0] <= SATURDAY + timedelta(days=7)
    assert {later - earlier for earlier, later in itertools.pairwise(times)} == {timedelta(days=7)}


def test_explain_shows_five_or_says_what_is_wrong() -> None:
    shown = CliRunner().invoke(command, ["0 3 * * 1"])
    assert shown.exit_code == 0
    assert shown.output.count("Mon 20") == 5
    refused = CliRunner().invoke(command, ["0 25 * * 1"])
    assert refused.exit_code == 2
    assert "hour 25 is outside 0 to 23" in refused.output

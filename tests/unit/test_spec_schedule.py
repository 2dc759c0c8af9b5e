"""Schedules: cron fields, recurrences, time zones, dates."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import worldsize
from worldsize import spec
from worldsize.azureml import cron
from worldsize.documents import yaml

HEAD = """\
name: digits
compute: {gpu: {target: azureml:gpu-cluster}}
steps: {train: {uses: train_ddp}}
"""

CRON_FAULTS = [
    # expression, text under the caret, message
    ("0 3 * *", "0 3 * *", "cron expression `0 3 * *` has 4 fields, not 5"),
    ("soon", "soon", "cron expression `soon` has 1 field, not 5"),
    (
        "0 0 3 * * 1",
        "0 0 3 * * 1",
        "cron expression `0 0 3 * * 1` has 6 fields, not 5; there is no field for seconds",
    ),
    ("75 3 * * 1", "75", "minute 75 is outside 0 to 59"),
    ("0 24 * * 1", "24", "hour 24 is outside 0 to 23"),
    ("0 3 * * 7", "7", "day of the week 7 is outside 0 to 6"),
    ("0 3 32 * *", "32", "day of the month 32 is outside 1 to 31"),
    ("0 3 * 13 *", "13", "month 13 is outside 1 to 12"),
    ("0 3 * * MO", "MO", "`MO` is not a day of the week"),
    ("0 noon * * *", "noon", "`noon` is not an hour"),
    ("0,99 3 * * *", "99", "minute 99 is outside 0 to 59"),
    ("*/0 3 * * *", "0", "step 0 of the minute is outside 1 to 59"),
    ("0 18-8 * * *", "18-8", "the range `18-8` of the hour runs backwards"),
    ("0 3,,5 * * *", ",", "`,` is not an hour"),
    ("0 3 * * 1#2", "1#2", "`1#2` is not a day of the week"),
    (
        "0 3 1 * *",
        "1",
        "the day of the month `1` is ignored: Azure ML reads it as `*`",
    ),
    (
        "0 3 * JAN *",
        "JAN",
        "the month `JAN` is ignored: Azure ML reads it as `*`",
    ),
]


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "0 3 * * 1",
        "*/15 8-18/2 * * MON-FRI",
        "0,30 0 * * 0,6",
        "5/10 1 * * sunday",
        " 0  3 * * 1 ",
    ],
)
def test_good_cron_expressions(expression):
    assert cron.check_cron(expression) == []


@pytest.mark.parametrize(("expression", "under", "message"), CRON_FAULTS)
def test_cron_faults_point_into_the_text(expression, under, message):
    (fault,) = cron.check_cron(expression)
    assert (expression[fault.start : fault.end], fault.message) == (under, message)
    assert fault.ignored == ("is ignored" in message)


def test_every_bad_field_of_a_cron_is_reported():
    assert [fault.message.split(" is ")[0] for fault in cron.check_cron("60 24 * * 9")] == [
        "minute 60",
        "hour 24",
        "day of the week 9",
    ]


@given(st.text(max_size=40))
def test_any_text_is_a_cron_or_has_faults_within_it(text):
    for fault in cron.check_cron(text):
        assert 0 <= fault.start <= fault.end <= max(len(text), fault.start + 1)


@given(st.lists(st.integers(0, 59), min_size=1, max_size=5), st.integers(0, 23), st.integers(0, 6))
def test_numbers_in_range_are_good(minutes, hour, day):
    assert cron.check_cron(f"{','.join(map(str, minutes))} {hour} * * {day}") == []


def load(tmp_path: Path, schedule: str) -> list[tuple[str, str, str]]:
    """The problems of a schedule as (slug, the text under the caret, message)."""
    path = tmp_path / "spec.yml"
    path.write_text(f"{HEAD}schedule: {schedule}\n")
    document = yaml.load(path)
    _, problems = spec.from_document(document)
    lines = document.text.splitlines()
    found = []
    for problem in problems:
        span = problem.span
        under = lines[span.line - 1][span.column - 1 : span.end_column - 1]
        found.append((problem.slug, under, problem.message))
    return found


@pytest.mark.parametrize(
    ("schedule", "slug", "under", "message"),
    [
        ('{cron: "0 25 * * 1"}', "schedule-bad-cron", "25", "hour 25 is outside 0 to 23"),
        (
            '{cron: "0 3 2 * 1"}',
            "schedule-cron-field-ignored",
            "2",
            "the day of the month `2` is ignored: Azure ML reads it as `*`",
        ),
        (
            "{time_zone: UTC}",
            "schedule-needs-cron-or-recurrence",
            "schedule",
            "`schedule` has neither `cron` nor `recurrence`",
        ),
        (
            '{cron: "0 3 * * 1", recurrence: {frequency: day, interval: 1}}',
            "schedule-cron-and-recurrence",
            "recurrence",
            "`schedule` has both `cron` and `recurrence`",
        ),
        (
            '{cron: "0 3 * * 1", time_zone: Europe/Berlin}',
            "schedule-unknown-time-zone",
            "Europe/Berlin",
            "time zone `Europe/Berlin` is an IANA name, but Azure ML takes Windows names",
        ),
        (
            '{cron: "0 3 * * 1", time_zone: Pacific Time}',
            "schedule-unknown-time-zone",
            "Pacific Time",
            "time zone `Pacific Time` is unknown to Azure ML",
        ),
        (
            "{recurrence: {frequency: week, interval: 0}}",
            "spec-out-of-range",
            "0",
            "`interval` is 0 but must be at least 1",
        ),
        (
            "{recurrence: {frequency: day, interval: 1, schedule: {hours: [4, 25], minutes: 0}}}",
            "spec-out-of-range",
            "25",
            "`hours[1]` is 25 but must be at most 23",
        ),
        (
            "{recurrence: {frequency: day, interval: 1, schedule: {hours: 25, minutes: 0}}}",
            "spec-out-of-range",
            "25",
            "`hours` is 25 but must be at most 23",
        ),
        (
            "{recurrence: {frequency: week, interval: 1, schedule: {hours: 4, minutes: 0, week_days: mon}}}",
            "spec-value-not-allowed",
            "mon",
            "`week_days` cannot be `mon`",
        ),
        (
            "{recurrence: {frequency: day, interval: 1, schedule: {hours: 4,minutes: 0, week_days: sunday}}}",
            "schedule-days-unused",
            "week_days",
            "`week_days` has no meaning when the frequency is `day`",
        ),
        (
            "{recurrence: {frequency: week, interval: 1, schedule: {hours: 4, minutes: 0, month_days: 1}}}",
            "schedule-days-unused",
            "month_days",
            "`month_days` has no meaning when the frequency is `week`",
        ),
        (
            '{cron: "0 3 * * 1", start_time: 2026-03-01T03:00:00}',
            "spec-wrong-type",
            "2026-03-01T03:00:00",
            "`start_time` must be text, but `2026-03-01T03:00:00` is a date",
        ),
        (
            '{cron: "0 3 * * 1", start_time: "2026-03-01T03:00:00-04:00"}',
            "spec-bad-pattern",
            '"2026-03-01T03:00:00-04:00"',
            "`start_time` is `2026-03-01T03:00:00-04:00`, which does not have the required form",
        ),
        (
            '{cron: "0 3 * * 1", start_time: "2026-02-30T03:00:00"}',
            "schedule-bad-time",
            '"2026-02-30T03:00:00"',
            "`start_time` is `2026-02-30T03:00:00`, which is not a valid date and time",
        ),
        (
            '{cron: "0 3 * * 1", start_time: "2026-03-01T03:00", end_time: "2025-03-01T03:00"}',
            "schedule-end-before-start",
            '"2025-03-01T03:00"',
            "`end_time` is 2025-03-01T03:00 but `start_time` is 2026-03-01T03:00: the schedule never runs",
        ),
        (
            "{recurrence: {frequency: week, interval: 1, week_days: [monday]}}",
            "spec-unknown-key",
            "week_days",
            "unknown key `week_days` in `schedule.recurrence`",
        ),
        (
            '{cron: "0 3 * * 1", timezone: UTC}',
            "spec-unknown-key",
            "timezone",
            "unknown key `timezone` in `schedule`",
        ),
    ],
)
def test_schedule_faults(tmp_path, schedule, slug, under, message):
    assert load(tmp_path, schedule) == [(slug, under, message)]


def test_a_key_that_belongs_one_level_deeper_is_sent_there(tmp_path):
    (tmp_path / "s.yml").write_text(
        "name: a\ncompute: {c: {target: azureml:c}}\nsteps: {s: {uses: shard_data, compute: c}}\n"
        "schedule: {recurrence: {frequency: day, interval: 1, hours: 3}}\n"
    )
    found = [each for each in worldsize.check(tmp_path / "s.yml").diagnostics if "`hours`" in each.message]
    assert [each.help for each in found] == ["write it under `schedule:`"]


@pytest.mark.parametrize(
    ("schedule", "helps"),
    [
        ("{frequency: week, interval: 1}", ["write it under `recurrence:`"] * 2),
        ("{hours: 3}", ["write it under `schedule:` of `recurrence:`"]),
    ],
)
def test_keys_of_a_recurrence_that_is_not_there_are_the_only_finding(tmp_path, schedule, helps):
    (tmp_path / "s.yml").write_text(
        "name: a\ncompute: {c: {target: azureml:c}}\nsteps: {s: {uses: shard_data, compute: c}}\n"
        f"schedule: {schedule}\n"
    )
    found = [each for each in worldsize.check(tmp_path / "s.yml").diagnostics if "schedule" in each.message]
    assert [each.help for each in found] == helps


@pytest.mark.parametrize(
    "schedule",
    [
        '{cron: "0 3 * * 1", time_zone: W. Europe Standard Time, start_time: "2026-03-01T03:00:00"}',
        "{recurrence: {frequency: month, interval: 2, schedule: {hours: 4, minutes: [0], month_days: 1}}}",
        "{name: weekly, recurrence: {frequency: week, interval: 1}}",
    ],
)
def test_good_schedules(tmp_path, schedule):
    assert load(tmp_path, schedule) == []


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("Europe/Berlin", "W. Europe Standard Time"),
        ("America/Los_Angeles", "Pacific Standard Time"),
        ("Asia/Kolkata", "India Standard Time"),
        ("Etc/UTC", "UTC"),
        ("utc", "UTC"),
        ("pacific standard time", "Pacific Standard Time"),
        ("W Europe Standard Time", "W. Europe Standard Time"),
        ("Mars/Olympus", None),
    ],
)
def test_a_known_zone_finds_its_windows_name(name, windows):
    assert cron.windows_name(name) == windows


@pytest.mark.smoke
@pytest.mark.run
def test_the_zones_are_azure_mls():
    constants = pytest.importorskip("azure.ai.ml.constants")
    assert list(cron.load_time_zones()) == [zone.value for zone in constants.TimeZone]

"""When triggers are due: against brute force by minute, and the examples of the documentation."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.azureml.cron import Trigger, due_times, load_time_zones, next_due, next_times
from worldsize.cli.main import main
from worldsize.serving.errors import ServiceError
from worldsize.serving.schedules.records import read_trigger

CREATED = datetime(2026, 1, 1, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
# Windows names, and the places whose clocks they mean.
# Clocks change by an hour, by half an hour on Lord Howe, at midnight in Cuba.
ZONES = {
    "UTC": "UTC",
    "W. Europe Standard Time": "Europe/Berlin",
    "Pacific Standard Time": "America/Los_Angeles",
    "Lord Howe Standard Time": "Australia/Lord_Howe",
    "Cuba Standard Time": "America/Havana",
    "India Standard Time": "Asia/Kolkata",
}
YEAR = st.integers(0, 365 * 24 * 60 - 1).map(lambda minutes: CREATED + minutes * MINUTE)
zones = st.sampled_from(sorted(ZONES))


def cron(expression: str, zone: str = "UTC", **bounds: str) -> Trigger:
    body = {"triggerType": "Cron", "expression": expression, "timeZone": zone, **bounds}
    return read_trigger(body, CREATED)


def recurrence(frequency: str, interval: int = 1, zone: str = "UTC", **rest: Any) -> Trigger:
    body = {
        "triggerType": "Recurrence",
        "frequency": frequency,
        "interval": interval,
        "timeZone": zone,
        **rest,
    }
    return read_trigger(body, CREATED)


def shown(trigger: Trigger, after: datetime | str, count: int = 3) -> list[str]:
    moment = (
        after if isinstance(after, datetime) else datetime.fromisoformat(after).replace(tzinfo=timezone.utc)
    )
    return [f"{due:%Y-%m-%d %H:%M}" for due in itertools.islice(due_times(trigger, moment), count)]


def local(trigger: Trigger, zone: str, after: str, count: int = 3) -> list[str]:
    moment = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    found = itertools.islice(due_times(trigger, moment.astimezone(timezone.utc)), count)
    return [f"{due.astimezone(ZoneInfo(zone)):%m-%d %H:%M %z}" for due in found]


fields = st.builds(
    lambda numbers, step: step or ",".join(map(str, numbers)),
    st.lists(st.integers(0, 6), min_size=1, max_size=3),
    st.sampled_from(["", "", "*", "*/2", "1-5"]),
)


@lru_cache(maxsize=16)
def walls(zone: str, begin: datetime, length: int) -> list[tuple[datetime, datetime]]:
    """Each minute from a day and more before `begin`, and what the clock of the zone shows then."""
    clock = ZoneInfo(ZONES[zone])
    moments = [begin + count * MINUTE for count in range(-26 * 60 - 1, length)]
    return [(moment, moment.astimezone(clock).replace(tzinfo=None, fold=0)) for moment in moments]


def wanted_by_minute(expression: list[str], zone: str, begin: datetime, length: int) -> list[datetime]:
    """Every minute whose clock matches, by the definition alone; `begin` is a whole minute."""
    allowed = [numbers(text, high) for text, high in zip(expression, (59, 23, 6), strict=True)]
    seen, wanted = set[datetime](), []
    skipped: list[datetime] = []
    for (_, before), (moment, wall) in itertools.pairwise(walls(zone, begin, length)):
        gap = wall - before - MINUTE
        for late in range(int(gap / MINUTE)):  # clock times that do not exist come as much later
            missing = before + (late + 1) * MINUTE
            if matches(missing, allowed) and len(allowed[1]) < 24:
                skipped.append(moment + late * MINUTE)
        twice = wall in seen
        seen.add(wall)
        if matches(wall, allowed) and (not twice or len(allowed[1]) == 24):
            wanted.append(moment)
    return sorted({moment for moment in wanted + skipped if moment > begin})


def numbers(text: str, high: int) -> set[int]:
    if text.startswith("*"):
        return set(range(0, high + 1, int(text[2:] or 1)))
    first, dash, last = text.partition("-")
    return set(range(int(first), int(last) + 1)) if dash else {int(item) for item in text.split(",")}


def matches(wall: datetime, allowed: list[set[int]]) -> bool:
    return all(
        value in values
        for value, values in zip((wall.minute, wall.hour, wall.isoweekday() % 7), allowed, strict=True)
    )


CHANGES = st.sampled_from(  # shortly before the clocks of each zone change in 2026
    [
        ("W. Europe Standard Time", "2026-03-28 20:00"),
        ("W. Europe Standard Time", "2026-10-24 20:00"),
        ("Pacific Standard Time", "2026-03-08 02:00"),
        ("Pacific Standard Time", "2026-11-01 02:00"),
        ("Lord Howe Standard Time", "2026-04-04 10:00"),
        ("Lord Howe Standard Time", "2026-10-03 10:00"),
        ("Cuba Standard Time", "2026-03-08 00:00"),
        ("Cuba Standard Time", "2026-11-01 00:00"),
        ("UTC", "2026-06-01 00:00"),
    ]
)


@settings(max_examples=40)
@given(minutes=fields, hours=fields, days=st.sampled_from(["*", "0", "0,6", "1-5"]), change=CHANGES)
def test_nothing_is_missed_and_nothing_added_where_clocks_change(
    minutes: str, hours: str, days: str, change: tuple[str, str]
) -> None:
    zone, text = change
    begin, length = datetime.fromisoformat(text).replace(tzinfo=timezone.utc), 24 * 60
    trigger = cron(f"{minutes} {hours} * * {days}", zone)
    end = begin + length * MINUTE
    found = list(itertools.takewhile(lambda due: due < end, due_times(trigger, begin)))
    wanted = wanted_by_minute([minutes, hours, days], zone, begin, length + 26 * 60)
    assert found == [moment for moment in wanted if moment < end]


lists = st.lists
PATTERNS = st.fixed_dictionaries(
    {
        "hours": lists(st.integers(0, 23), max_size=3),
        "minutes": lists(st.integers(0, 59), max_size=3),
        "weekDays": lists(st.sampled_from(["Monday", "Sunday"]), max_size=2),
        "monthDays": lists(st.integers(1, 31), max_size=3),
    }
)
FREQUENCIES = st.sampled_from(["Minute", "Hour", "Day", "Week", "Month"])


@given(after=YEAR, zone=zones, frequency=FREQUENCIES, interval=st.integers(1, 5), pattern=PATTERNS)
def test_due_times_ascend_and_none_lies_between_two(
    after: datetime, zone: str, frequency: str, interval: int, pattern: dict[str, Any]
) -> None:
    trigger = recurrence(frequency, interval, zone, schedule=pattern)
    found = list(itertools.islice(due_times(trigger, after), 5))
    assert all(earlier < later for earlier, later in itertools.pairwise([after, *found]))
    for earlier, later in itertools.pairwise([after, *found]):
        assert next_due(trigger, earlier) == later
        assert next_due(trigger, later - timedelta(microseconds=1)) == later


def test_a_recurrence_counts_from_its_start() -> None:
    """The example of the Logic Apps page: every two days from a start in the past."""
    trigger = recurrence("Day", 2, startTime="2017-09-07T14:00:00")
    assert shown(trigger, "2017-09-08T13:00:00") == [
        "2017-09-09 14:00",
        "2017-09-11 14:00",
        "2017-09-13 14:00",
    ]
    later = recurrence("Day", 2, startTime="2017-09-07T14:00:00")
    assert shown(later, "2017-01-01T00:00:00", 1) == ["2017-09-07 14:00"]  # at the start itself
    hourly = recurrence("Hour", 5, startTime="2026-01-01 01:30:20")
    assert shown(hourly, "2026-01-02T00:00:00", 2) == ["2026-01-02 02:30", "2026-01-02 07:30"]


def test_without_a_start_time_what_is_due_comes_after_the_creation() -> None:
    assert shown(recurrence("Minute", 15), CREATED - timedelta(days=1), 2) == [
        "2026-01-01 00:15",
        "2026-01-01 00:30",
    ]
    assert shown(cron("0 0 * * *"), CREATED - timedelta(days=1), 1) == ["2026-01-02 00:00"]


@pytest.mark.parametrize(
    ("frequency", "interval", "pattern", "expected"),
    [
        ("Day", 1, {"hours": [10], "minutes": [1, 0]}, ["01-01 10:00", "01-01 10:01", "01-02 10:00"]),
        ("Day", 1, {"hours": [10], "minutes": []}, ["01-01 10:30", "01-02 10:30", "01-03 10:30"]),
        ("Day", 1, {"hours": [], "minutes": []}, ["01-01 08:30", "01-02 08:30", "01-03 08:30"]),
        ("Week", 1, {"hours": [], "minutes": []}, ["01-01 08:30", "01-08 08:30", "01-15 08:30"]),
        # 2026-01-01 is a Thursday: the Monday of its week lies before the start.
        (
            "Week",
            2,
            {"hours": [9], "minutes": [0], "weekDays": ["Monday"]},
            ["01-12 09:00", "01-26 09:00", "02-09 09:00"],
        ),
        (
            "Month",
            1,
            {"hours": [9], "minutes": [0], "monthDays": [31]},
            ["01-31 09:00", "03-31 09:00", "05-31 09:00"],
        ),
        (
            "Month",
            2,
            {"hours": [9], "minutes": [0], "monthDays": [1]},
            ["01-01 09:00", "03-01 09:00", "05-01 09:00"],
        ),
        (
            "Month",
            3,
            {"hours": [9], "minutes": [0], "weekDays": ["friday"]},
            ["01-02 09:00", "01-09 09:00", "01-16 09:00"],
        ),
        ("Month", 1, {"hours": [], "minutes": []}, ["01-01 08:30", "02-01 08:30", "03-01 08:30"]),
    ],
)
def test_patterns(frequency: str, interval: int, pattern: dict[str, Any], expected: list[str]) -> None:
    trigger = recurrence(frequency, interval, schedule=pattern, startTime="2026-01-01T08:30:00")
    assert [text[5:] for text in shown(trigger, CREATED)] == expected


def test_what_never_comes_ends() -> None:
    never = recurrence("Month", 12, startTime="2026-02-01T00:00:00", schedule={"monthDays": [30]})
    assert next_due(never, CREATED) is None
    assert next_due(recurrence("Day", 2**31 - 1), CREATED) is None
    assert next_due(cron("0 0 * * *", endTime="2026-01-02T00:00:00"), CREATED) is not None
    assert next_due(cron("1 0 * * *", endTime="2026-01-01T00:00:00"), CREATED) is None
    assert shown(recurrence("Minute", startTime="9999-12-31T23:58:30"), CREATED) == [
        "9999-12-31 23:58",
        "9999-12-31 23:59",
    ]
    assert shown(cron("0 12 * * *", startTime="9999-12-31T00:00:00"), CREATED) == ["9999-12-31 12:00"]


def test_where_clocks_change() -> None:
    berlin = "W. Europe Standard Time"
    nightly = cron("30 2 * * *", berlin)
    assert local(nightly, "Europe/Berlin", "2026-03-28 00:00") == [
        "03-28 02:30 +0100",
        "03-29 03:30 +0200",
        "03-30 02:30 +0200",
    ]
    assert local(nightly, "Europe/Berlin", "2026-10-24 12:00", 2) == [
        "10-25 02:30 +0200",
        "10-26 02:30 +0100",
    ]
    hourly = cron("30 * * * *", berlin)
    assert local(hourly, "Europe/Berlin", "2026-10-25 01:00", 4) == [
        "10-25 01:30 +0200", "10-25 02:30 +0200", "10-25 02:30 +0100", "10-25 03:30 +0100",
    ]  # fmt: skip
    assert local(hourly, "Europe/Berlin", "2026-03-29 01:00", 2) == ["03-29 01:30 +0100", "03-29 03:30 +0200"]


@pytest.mark.parametrize("name", load_time_zones())
def test_every_time_zone_of_azure_ml_is_known(name: str) -> None:
    assert next_due(cron("0 3 * * 1", name.lower()), CREATED) is not None


def test_offsets_are_dropped_as_the_service_does() -> None:
    trigger = cron("0 * * * *", "Eastern Standard Time", startTime="2026-05-10T10:15:00.25-04:00")
    assert shown(trigger, CREATED, 1) == ["2026-05-10 15:00"]  # 11:00 there, not in UTC-4 of UTC


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "Expected `object`"),
        ([], "Expected `object`"),
        ({}, "triggerType"),
        ({"triggerType": "Event"}, "neither Cron nor Recurrence"),
        ({"triggerType": "Cron"}, "no `expression`"),
        ({"triggerType": "Cron", "expression": "0 25 * * *"}, "hour 25 is outside 0 to 23"),
        ({"triggerType": "Cron", "expression": 5}, "Expected `str"),
        ({"triggerType": "Cron", "expression": "* * * * *", "timeZone": "Europe/Berlin"}, "W. Europe"),
        ({"triggerType": "Cron", "expression": "* * * * *", "startTime": "soon"}, "`startTime` is `soon`"),
        (
            {
                "triggerType": "Cron",
                "expression": "* * * * *",
                "startTime": "0001-01-01",
                "timeZone": "UTC+12",
            },
            "startTime",
        ),
        (
            {
                "triggerType": "Cron",
                "expression": "* * * * *",
                "startTime": "2026-01-02",
                "endTime": "2026-01-01",
            },
            "never runs",
        ),
        ({"triggerType": "Recurrence", "frequency": "Day"}, "`interval` is None"),
        ({"triggerType": "Recurrence", "frequency": "Day", "interval": 0}, "at least 1"),
        ({"triggerType": "Recurrence", "frequency": "Day", "interval": True}, "Expected `int"),
        ({"triggerType": "Recurrence", "frequency": "Year", "interval": 1}, "`frequency` is `year`"),
        ({"triggerType": "Recurrence", "frequency": "Hour", "interval": 2**31}, "at least 1"),
        ({"triggerType": "Recurrence", "frequency": "Day", "interval": 1, "schedule": {"hours": [24]}}, "24"),
        (
            {
                "triggerType": "Recurrence",
                "frequency": "Week",
                "interval": 1,
                "schedule": {"weekDays": ["Mon"]},
            },
            "`Mon`",
        ),
        (
            {
                "triggerType": "Recurrence",
                "frequency": "Month",
                "interval": 1,
                "schedule": {"monthDays": [0]},
            },
            "0",
        ),
    ],
)
def test_what_cannot_fire_is_refused(body: object, message: str) -> None:
    with pytest.raises(ServiceError, match=r".") as caught:
        read_trigger(body, CREATED)
    assert caught.value.status == 400
    assert message in str(caught.value)


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
    shown = CliRunner().invoke(main, ["explain", "0 3 * * 1"])
    assert shown.exit_code == 0
    assert shown.output.count("Mon 20") == 5
    refused = CliRunner().invoke(main, ["explain", "0 25 * * 1"])
    assert refused.exit_code == 2
    assert "hour 25 is outside 0 to 23" in refused.output

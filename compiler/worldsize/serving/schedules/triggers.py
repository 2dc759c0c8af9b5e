"""Reads the trigger of a schedule's REST body, as Azure ML does, and refuses what it cannot fire."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from msgspec import Meta

from worldsize.azureml import cron
from worldsize.azureml.cron import load_time_zones, normalise_time, windows_name
from worldsize.serving.control.document import take_time
from worldsize.serving.errors import bad_request

# Windows zones that the Unicode CLDR maps to nothing: the offsets that they keep.
_UNMAPPED = {"mid-atlantic standard time": "Etc/GMT+2", "kamchatka standard time": "Asia/Kamchatka"}
_ELAPSED = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_WEEKDAYS = {name.lower(): number for number, name in enumerate(calendar.day_name)}  # Monday is 0
_MAX_INTERVAL = 2**31 - 1  # a 32-bit number in Azure's interface


class _Pattern(msgspec.Struct, rename="camel"):
    hours: Annotated[list[int], Meta(max_length=24)] | None = None
    minutes: Annotated[list[int], Meta(max_length=60)] | None = None
    week_days: Annotated[list[str], Meta(max_length=7)] | None = None
    month_days: Annotated[list[int], Meta(max_length=31)] | None = None


class _Body(msgspec.Struct, rename="camel"):
    trigger_type: str
    expression: str | None = None
    frequency: str | None = None
    interval: int | None = None
    schedule: _Pattern | None = None
    start_time: str | None = None
    end_time: str | None = None
    time_zone: str | None = None


def read_trigger(body: object, created: datetime) -> cron.Trigger:
    """Read ``properties.trigger`` of a schedule, which starts with its creation where no start is written.

    Raises:
        ServiceError: 400, with what is wrong.
    """
    try:
        trigger = msgspec.convert(body, _Body)
    except msgspec.ValidationError as error:
        raise bad_request(f"The schedule's trigger is not valid: {error}.") from None
    zone = _read_zone(trigger.time_zone or "UTC")
    start = _read_time("startTime", trigger.start_time, zone)
    last = _read_time("endTime", trigger.end_time, zone)
    if start is not None and last is not None and last <= start:
        raise bad_request("The schedule never runs: its `endTime` is not after its `startTime`.")
    anchor = start or created.astimezone(zone).replace(microsecond=0)
    kind = trigger.trigger_type.lower()
    if kind not in ("cron", "recurrence"):
        raise bad_request(f"`triggerType` is `{trigger.trigger_type}`, which is neither Cron nor Recurrence.")
    rhythm = _read_cron(trigger) if kind == "cron" else _read_recurrence(trigger, anchor)
    # Without a start time the first job starts with the schedule's creation, and what is due comes later.
    return cron.Trigger(zone, rhythm, anchor, start or anchor + timedelta(seconds=1), last)


def has_start(body: dict[str, Any]) -> bool:
    """Whether a trigger names its start time; without one, its first job starts at once."""
    return bool(body.get("startTime"))


@cache
def _read_zone(name: str) -> ZoneInfo:
    wanted = name.strip().lower()
    zones = {windows.lower(): iana for windows, iana in load_time_zones().items()}
    if wanted not in zones:
        meant = windows_name(name)
        advice = f" Did you mean `{meant}`?" if meant else ""
        raise bad_request(f"Time zone `{name}` is unknown to Azure ML, which takes Windows names.{advice}")
    # The zones of one name agree but for single stations, which come before the others' continents.
    zone_names = available_timezones()
    iana = next((zone for zone in reversed(zones[wanted]) if zone in zone_names), _UNMAPPED.get(wanted))
    if iana not in zone_names:
        raise bad_request(f"This machine has no data of time zone `{name}`: install the package `tzdata`.")
    return ZoneInfo(iana)


def _read_time(name: str, text: str | None, zone: ZoneInfo) -> datetime | None:
    if not text:
        return None
    return take_time(normalise_time(text) or text, name, zone).replace(tzinfo=zone)


def _read_cron(trigger: _Body) -> cron.Calendar:
    if trigger.expression is None:
        raise bad_request("The schedule's trigger has no `expression`.")
    faults = [fault for fault in cron.check_cron(trigger.expression) if not fault.ignored]
    if faults:
        raise bad_request("; ".join(f"{fault.message}: {fault.help}" for fault in faults) + ".")
    return cron.read_cron(trigger.expression)


def _read_recurrence(trigger: _Body, anchor: datetime) -> cron.Calendar | timedelta:
    frequency, interval = (trigger.frequency or "").lower(), trigger.interval
    if interval is None or not 1 <= interval <= _MAX_INTERVAL:
        raise bad_request(f"`interval` is {interval}; write a whole number of at least 1.")
    if frequency in _ELAPSED:
        try:
            return interval * _ELAPSED[frequency]
        except OverflowError:
            raise bad_request(f"`interval` is {interval}, which is beyond all dates.") from None
    pattern = trigger.schedule or _Pattern()
    hours = _read_numbers("hours", pattern.hours, 0, 23)
    minutes = _read_numbers("minutes", pattern.minutes, 0, 59)
    second = 0 if hours or minutes else anchor.second
    moments = cron.times_of_day(hours or [anchor.hour], minutes or [anchor.minute], second)
    return cron.Calendar(_read_days(frequency, interval, pattern, anchor.date()), moments)


def _read_days(frequency: str, interval: int, pattern: _Pattern, anchor: date) -> Callable[[date], bool]:
    weekdays = frozenset(_read_weekday(name) for name in pattern.week_days or ())
    month_days = frozenset(_read_numbers("monthDays", pattern.month_days, 1, 31))
    if frequency == "day":
        return cron.every_days(anchor, interval)
    if frequency == "week":
        return cron.every_weeks(anchor, interval, weekdays or frozenset({anchor.weekday()}))
    if frequency == "month":
        days = month_days if month_days or weekdays else frozenset({anchor.day})
        return cron.every_months(anchor, interval, days, weekdays)
    raise bad_request(f"`frequency` is `{frequency}`; it is one of Minute, Hour, Day, Week and Month.")


def _read_numbers(name: str, numbers: list[int] | None, low: int, high: int) -> list[int]:
    for number in numbers or ():
        if not low <= number <= high:
            raise bad_request(f"`{name}` has {number}, which is outside {low} to {high}.")
    return sorted(set(numbers or ()))


def _read_weekday(name: str) -> int:
    try:
        return _WEEKDAYS[name.lower()]
    except KeyError:
        raise bad_request(f"`weekDays` has `{name}`, which is not a day of the week.") from None

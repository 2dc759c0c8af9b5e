"""Schedules, their triggers as Azure ML reads them, and their firings in the database."""

from __future__ import annotations

import calendar
import itertools
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from msgspec import Meta

from worldsize.azureml import cron
from worldsize.azureml.cron import Trigger, due_times, load_time_zones, normalise_time, windows_name
from worldsize.serving.control.assets import ROW, Resource, get_resource, read_resource
from worldsize.serving.control.call import take_time
from worldsize.serving.database import Database, now, read_record, read_time, use_each
from worldsize.serving.errors import ServiceError, bad_request

KIND = "schedules"
_LONGEST_NAME = 200  # characters of a job's


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A stored schedule. Times are aware, in UTC; ``properties`` are those of the REST body."""

    name: str
    properties: Mapping[str, Any]
    created: datetime
    modified: datetime

    @property
    def enabled(self) -> bool:
        """Whether it is switched on."""
        return self.properties.get("isEnabled") is not False

    @property
    def note(self) -> str:
        """Why a schedule never starts a job, for people; empty if it does."""
        kind = self.properties["action"]["actionType"]
        if kind.lower() == "createjob":
            return ""
        return f"Stored, but never fired: a local workspace does not run the action {kind}."

    def trigger(self) -> Trigger:
        """What it is due by."""
        return read_trigger(self.properties["trigger"], self.created)

    def next_times(self, count: int = 5, after: datetime | None = None) -> list[datetime]:
        """The next due times, in UTC: none for a schedule that is disabled or never fired."""
        if not self.enabled or self.note:
            return []
        moment = after or datetime.now(timezone.utc)
        return list(itertools.islice(due_times(self.trigger(), moment), count))


class Firing(msgspec.Struct, frozen=True):
    """One due time that was acted on: the job that it started, or why it did not. Times are in UTC."""

    schedule: str
    due: str
    fired: str
    job: str | None = None
    error: str | None = None


def get_schedule(database: Database, name: str) -> ScheduleRecord | None:
    """The schedule of a name, or None."""
    resource = get_resource(database, KIND, name)
    return None if resource is None else read_record("schedule", resource, read_schedule)


# Python would have to parse all bodies for it, and SQLite lets other threads go on meanwhile.
_LIST = """
SELECT id FROM resources WHERE kind = :kind
    AND iif(json_valid(body), json_extract(body, '$.isEnabled'), 1) IS NOT :disabled ORDER BY id
"""


# Without the definition of its jobs, of which a list shows nothing and which may have megabytes.
_BRIEF = """
SELECT kind, name, secrets, created, modified,
    iif(json_valid(body), json_remove(body, '$.action.jobDefinition'), body) AS body
FROM resources WHERE id = ?
"""


def list_schedules(
    database: Database, *, enabled: bool | None = None, brief: bool = False
) -> Iterator[ScheduleRecord]:
    """The schedules that can be read, in the order of their creation, one in memory at a time.

    ``brief`` leaves out the definitions of their jobs.
    """
    values = {"kind": KIND, "disabled": 0 if enabled else -1}
    rows = database.rows(_LIST, values, _BRIEF if brief else ROW)
    schedules = use_each("schedule", use_each("schedule", rows, read_resource), read_schedule)
    return (schedule for schedule in schedules if enabled in (None, schedule.enabled))


def list_states(database: Database) -> dict[str, str]:
    """When each schedule was changed last, by its name: what is cheap to look at often."""
    query = "SELECT name, modified FROM resources WHERE kind = ?"
    return {row["name"]: row["modified"] for row in database.connection.execute(query, (KIND,))}


def list_firings(database: Database, schedule: str, limit: int = 100) -> list[Firing]:
    """What a schedule fired, the latest first."""
    query = "SELECT * FROM firings WHERE schedule = ? ORDER BY due DESC LIMIT ?"
    return [Firing(*row) for row in database.connection.execute(query, (schedule, limit))]


def unfinished_firings(database: Database, limit: int) -> list[Firing]:
    """The first firings that were claimed and have come to no end: they run, or a killed server left them."""
    query = "SELECT * FROM firings WHERE job IS NULL AND error IS NULL ORDER BY due LIMIT ?"
    return [Firing(*row) for row in database.connection.execute(query, (limit,))]


def claim(database: Database, schedule: str, due: datetime) -> Firing | None:
    """Record that a due time is acted on; None if it was before."""
    firing = Firing(schedule, _write_time(due), now())
    is_new = database.insert("firings", msgspec.structs.asdict(firing), "ON CONFLICT DO NOTHING")
    return firing if is_new else None


def find_firing(database: Database, schedule: str, due: datetime) -> Firing | None:
    """The firing of a due time, or None."""
    query = "SELECT * FROM firings WHERE schedule = ? AND due = ?"
    row: sqlite3.Row | None = database.connection.execute(query, (schedule, _write_time(due))).fetchone()
    return None if row is None else Firing(*row)


def finish(database: Database, firing: Firing, *, job: str | None = None, error: str | None = None) -> None:
    """Record the job that a firing started, or why it started none."""
    query = "UPDATE firings SET job = ?, error = ? WHERE schedule = ? AND due = ?"
    database.connection.execute(query, (job, error, firing.schedule, firing.due))


def read_schedule(resource: Resource) -> ScheduleRecord:
    """The schedule of a stored resource.

    Raises:
        ServiceError: Its trigger is not one.
        LookupError, TypeError, ValueError: It is not a schedule.
    """
    schedule = ScheduleRecord(
        resource.name, resource.body, read_time(resource.created), read_time(resource.modified)
    )
    if not schedule.note:
        schedule.trigger()
    return schedule


def find_next_fire(trigger: object) -> datetime | None:
    """When a schedule that is set now fires next, on its own clock; None if that cannot be known."""
    moment = datetime.now(timezone.utc)
    try:
        read = read_trigger(trigger, moment)
    except ServiceError:  # a time zone of which this machine has no data
        return None
    due = cron.next_due(read, moment)
    return None if due is None else due.astimezone(read.zone)


def _write_time(moment: datetime) -> str:
    """A due time as the database has it: seconds, and microseconds where there are any."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None).isoformat() + "Z"


def job_name(firing: Firing) -> str:
    """The name of a firing's job, as Azure ML displays it: ``nightly-20210101T060000Z``."""
    stamp = firing.due.translate(str.maketrans("", "", "-:."))
    return f"{firing.schedule[: _LONGEST_NAME - len(stamp) - 1]}-{stamp}"


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

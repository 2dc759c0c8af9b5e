"""When a trigger is due, as instants of UTC: pure arithmetic on calendars and time zones.

What Azure ML documents: Microsoft Learn, "Schedule machine learning pipeline jobs" (a month without a named
day has no firing; days and months of a cron expression are ignored) and "Schedules for recurring triggers in
Azure Logic Apps workflows" (intervals count from the start time; an hour or a minute that is not given is
that of the start). What it leaves open follows cron(8): where clocks change, a time of day that is skipped
comes later by what is skipped, one that comes twice counts once, and a trigger of every hour follows elapsed
time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone, tzinfo

from msgspec import Struct

HORIZON = 50 * 366  # days after which a trigger that was not due is never due
_DAY = timedelta(days=1)


class Calendar(Struct, frozen=True):
    """Times of day on certain days, on a time zone's clock."""

    on_day: Callable[[date], bool]
    times: tuple[time, ...]  # ascending

    @property
    def every_hour(self) -> bool:
        """Whether all hours of the day are named, so that the trigger follows elapsed time."""
        return len({moment.hour for moment in self.times}) == 24


class Trigger(Struct, frozen=True):
    """A trigger that was read: what is due between its bounds.

    ``first`` is the earliest due time that is allowed, and ``last`` the latest; both are aware times.
    """

    zone: tzinfo
    rhythm: Calendar | timedelta  # a timedelta counts from `anchor`
    anchor: datetime  # the start time, or the schedule's creation
    first: datetime
    last: datetime | None = None


def due_times(trigger: Trigger, after: datetime) -> Iterator[datetime]:
    """The due times after a moment, ascending and without end unless the trigger has one.

    Args:
        trigger: The trigger.
        after: An aware time; what is due then is left out.

    Yields:
        Aware times in UTC.
    """
    floor = max(after, trigger.first - timedelta(microseconds=1))
    if isinstance(trigger.rhythm, timedelta):
        moments = _elapsed(trigger.anchor, trigger.rhythm, floor)
    else:
        moments = _on_calendar(trigger.rhythm, trigger.zone, floor)
    for moment in moments:
        if trigger.last is not None and moment > trigger.last:
            return
        yield moment


def next_due(trigger: Trigger, after: datetime) -> datetime | None:
    """The first due time after a moment, in UTC; None where the trigger is never due again."""
    return next(due_times(trigger, after), None)


def _elapsed(anchor: datetime, step: timedelta, after: datetime) -> Iterator[datetime]:
    anchor = anchor.astimezone(timezone.utc)
    count = max(0, (after - anchor) // step + 1)
    try:
        while True:
            yield anchor + count * step
            count += 1
    except OverflowError:  # the year 10000
        return


def _on_calendar(rhythm: Calendar, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Merge the days' times: a time that is skipped can come after some of the next day's."""
    pending: set[datetime] = set()
    first = max(after.astimezone(zone).date(), date(1, 1, 3)) - 2 * _DAY
    for number in range(HORIZON):
        try:
            day = first + number * _DAY
            if rhythm.on_day(day):
                pending.update(_of_day(rhythm, zone, day))
            if not pending:  # most days of a rare trigger, over fifty years
                continue
            settled = datetime.combine(day, time.min, zone).astimezone(timezone.utc) - _DAY
        except OverflowError:  # the year 10000
            break
        ready = sorted(moment for moment in pending if moment < settled)
        pending.difference_update(ready)
        yield from (moment for moment in ready if moment > after)
    yield from sorted(moment for moment in pending if moment > after)


def _of_day(rhythm: Calendar, zone: tzinfo, day: date) -> Iterator[datetime]:
    for moment in rhythm.times:
        clock = datetime.combine(day, moment, zone)
        instant = clock.astimezone(timezone.utc)
        if not rhythm.every_hour:
            yield instant  # the first of two; a skipped one moved by what is skipped
            continue
        for fold in (0, 1):
            instant = clock.replace(fold=fold).astimezone(timezone.utc)
            if instant.astimezone(zone).replace(tzinfo=None) == clock.replace(tzinfo=None):
                yield instant


def every_days(anchor: date, interval: int) -> Callable[[date], bool]:
    """Every ``interval`` days from the anchor's."""
    return lambda day: (day - anchor).days % interval == 0


def every_weeks(anchor: date, interval: int, days: frozenset[int]) -> Callable[[date], bool]:
    """The days of the week (Monday is 0) in every ``interval`` weeks from the anchor's; Monday is first."""
    monday = anchor - anchor.weekday() * _DAY
    return lambda day: day.weekday() in days and (day - monday).days // 7 % interval == 0


def every_months(
    anchor: date, interval: int, days: frozenset[int], weekdays: frozenset[int]
) -> Callable[[date], bool]:
    """The days of the month, and of the week, in every ``interval`` months from the anchor's."""

    def on_day(day: date) -> bool:
        months = 12 * (day.year - anchor.year) + day.month - anchor.month
        return months % interval == 0 and (day.day in days or day.weekday() in weekdays)

    return on_day


def times_of_day(hours: list[int], minutes: list[int], second: int = 0) -> tuple[time, ...]:
    """All the hours with all the minutes, ascending."""
    return tuple(
        time(hour, minute, second) for hour, minute in itertools.product(sorted(hours), sorted(minutes))
    )

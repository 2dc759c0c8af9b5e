"""When a cron expression fires next, as Azure ML reads it: day of the month and month count for nothing."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from worldsize.spec.cron import FIELDS, Field


def next_times(expression: str, after: datetime, count: int = 5) -> list[datetime]:
    """The next moments, on the clock of the schedule's own time zone.

    Args:
        expression: One without faults (see :func:`worldsize.spec.cron.check_cron`).
        after: The moment before the first; its time zone, or none, is kept.
        count: How many.
    """
    parts = expression.split()
    minutes, hours = _values(parts[0], FIELDS[0]), _values(parts[1], FIELDS[1])
    days = _values(parts[4], FIELDS[4])
    found: list[datetime] = []
    day = after.date()
    while len(found) < count:
        if day.isoweekday() % 7 in days:
            moments = (time(hour, minute, tzinfo=after.tzinfo) for hour in hours for minute in minutes)
            found += [moment for clock in moments if (moment := datetime.combine(day, clock)) > after]
        day += timedelta(days=1)
    return found[:count]


def _values(text: str, field: Field) -> list[int]:
    """The numbers that one field allows, ascending."""
    allowed: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        low = field.low if first == "*" else _number(first, field)
        alone = not last and not step and first != "*"
        high = _number(last, field) if last else low if alone else field.high
        allowed.update(range(low, high + 1, int(step or 1)))
    return sorted(allowed)


def _number(text: str, field: Field) -> int:
    return int(text) if text.isdigit() else field.words[text.upper()]

"""Cron expressions of Azure ML's schedules: five fields, two of which Azure ML ignores; their next times.

Source: Microsoft Learn, "Schedule machine learning pipeline jobs", section on cron expressions;
grammar of one field: NCrontab's expression page, which that section refers to.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from functools import cache
from itertools import islice
from pathlib import Path

from msgspec import Struct

from worldsize.base.patterns import compile_later
from worldsize.base.suggest import closest
from worldsize.base.wording import plural

# Azure ML drops offsets and fractions of a second; Python 3.10 cannot read all of them.
_TIME = compile_later(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?)?\s*(?:Z|[+-]\d\d:?\d\d)?", re.IGNORECASE
)

_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_LONG_DAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
_ITEM = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\w+))?")


class CronField(Struct, frozen=True):
    """One of the five fields: its name, its range, its words for numbers, and whether Azure ML reads it."""

    name: str
    low: int
    high: int
    words: dict[str, int]
    read: bool = True

    @property
    def named(self) -> str:
        """The name with its article."""
        return f"{'an' if self.name == 'hour' else 'a'} {self.name}"


class CronFault(Struct, frozen=True):
    """A fault, and the offsets of the text that has it."""

    start: int
    end: int
    message: str
    help: str
    ignored: bool = False  # correct, but ignored by Azure ML


FIELDS = (
    CronField("minute", 0, 59, {}),
    CronField("hour", 0, 23, {}),
    CronField("day of the month", 1, 31, {}, read=False),
    CronField("month", 1, 12, {word: number for number, word in enumerate(_MONTHS, start=1)}, read=False),
    CronField("day of the week", 0, 6, {w: n for words in (_DAYS, _LONG_DAYS) for n, w in enumerate(words)}),
)


def check_cron(expression: str) -> list[CronFault]:
    """Find all faults of an expression such as ``0 3 * * 1``: 03:00 every Monday."""
    parts = list(re.finditer(r"\S+", expression))
    if len(parts) != len(FIELDS):
        return [_report_field_count(expression, len(parts))]
    return [fault for part, field in zip(parts, FIELDS, strict=True) for fault in _check_field(part, field)]


def _report_field_count(expression: str, count: int) -> CronFault:
    hint = "; there is no field for seconds" if count == len(FIELDS) + 1 else ""
    return CronFault(
        0,
        len(expression),
        f"cron expression `{expression.strip()}` has {plural(count, 'field')}, not 5{hint}",
        "write minute, hour, day of the month, month, day of the week: `0 3 * * 1` is 03:00 every Monday",
    )


def _check_field(part: re.Match[str], field: CronField) -> Iterator[CronFault]:
    has_fault = False
    offset = part.start()
    for item in part.group().split(","):
        for fault in _check_item(item, offset, field):
            has_fault = True
            yield fault
        offset += len(item) + 1
    if not has_fault and not field.read and part.group() != "*":
        yield CronFault(
            part.start(),
            part.end(),
            f"the {field.name} `{part.group()}` is ignored: Azure ML reads it as `*`",
            "write `*` there, or use a `recurrence` with `frequency: month`",
            ignored=True,
        )


def _check_item(item: str, offset: int, field: CronField) -> Iterator[CronFault]:
    match = _ITEM.fullmatch(item)
    if match is None:
        text = item or ","
        yield CronFault(
            offset, offset + max(len(item), 1), f"`{text}` is not {field.named}", _describe_forms(field)
        )
        return
    numbers: dict[str, int] = {}
    for name in ("first", "last", "step"):
        text = match.group(name)
        if text is None:
            continue
        start = offset + match.start(name)
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        number = int(text) if is_number else field.words.get(text.upper())
        if number is None or (name == "step" and not text.isdigit()):
            yield CronFault(
                start, start + len(text), f"`{text}` is not {field.named}", _describe_forms(field)
            )
        elif not (1 <= number <= field.high if name == "step" else field.low <= number <= field.high):
            message = f"{field.name} {text} is outside {field.low} to {field.high}"
            if name == "step":
                message = f"step {text} of the {field.name} is outside 1 to {field.high}"
            yield CronFault(start, start + len(text), message, _describe_forms(field))
        else:
            numbers[name] = number
    if numbers.get("last", field.high) < numbers.get("first", field.low):
        message = (
            f"the range `{match.group('first')}-{match.group('last')}` of the {field.name} runs backwards"
        )
        yield CronFault(
            offset, offset + len(item), message, "write the smaller number first, or two ranges with a comma"
        )


def _describe_forms(field: CronField) -> str:
    names = list(field.words)
    words = f" or {names[0]} to {names[field.high - field.low]}" if names else ""
    numbers = f"{field.named} is {field.low} to {field.high}{words}"
    return f"{numbers}, `*`, a range `a-b`, a step `*/n`, or a list with commas"


def next_times(expression: str, after: datetime, count: int = 5) -> list[datetime]:
    """The next times of an expression without faults, on a clock without zone that is never changed."""
    start = after.replace(tzinfo=timezone.utc)
    trigger = Trigger(timezone.utc, read_cron(expression), start, start)
    return [due.replace(tzinfo=None) for due in islice(due_times(trigger, start), count)]


def read_cron(expression: str) -> Calendar:
    """The times of day and the days of the week of an expression without faults."""
    texts = expression.split()
    minutes, hours, days = (_allowed_numbers(texts[place], FIELDS[place]) for place in (0, 1, 4))
    weekdays = frozenset((day - 1) % 7 for day in days)  # cron's Sunday is 0, Python's Monday
    return Calendar(lambda day: day.weekday() in weekdays, times_of_day(hours, minutes))


def _allowed_numbers(text: str, field: CronField) -> list[int]:
    """The numbers that a field allows, in ascending order."""
    allowed: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        low = field.low if first == "*" else _parse_field_number(first, field)
        alone = not last and not step and first != "*"
        high = _parse_field_number(last, field) if last else low if alone else field.high
        allowed.update(range(low, high + 1, int(step or 1)))
    return sorted(allowed)


def _parse_field_number(text: str, field: CronField) -> int:
    return int(text) if text.isdigit() else field.words[text.upper()]


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


def normalise_time(text: str) -> str | None:
    """A start or end time as Azure ML reads it: without its offset and its fraction of a second.

    Args:
        text: Such as ``2026-03-01 03:00:00+01:00``.

    Returns:
        Such as ``2026-03-01T03:00:00``, on the clock of the schedule's time zone. None for another form.
    """
    match = _TIME.fullmatch(text.strip())
    return None if match is None else f"{match[1]}T{match[2] or '00:00:00'}"


@cache
def load_time_zones() -> dict[str, tuple[str, ...]]:
    """Map Windows names to IANA names, in the order of Azure ML's list."""
    text = Path(__file__).with_name("time_zones.txt").read_text(encoding="utf-8")
    rows = (line.partition("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: tuple(iana.split()) for name, _, iana in rows}


def windows_name(name: str) -> str | None:
    """The Windows name for an IANA name (``Europe/Berlin``) or a misspelt name; None if none is similar."""
    wanted = name.strip().lower()
    for windows, iana_names in load_time_zones().items():
        if wanted == windows.lower() or wanted in (iana.lower() for iana in iana_names):
            return windows
    return closest(name, load_time_zones())

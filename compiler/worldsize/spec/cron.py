"""Cron expressions of Azure ML's schedules: five fields, two of which Azure ML ignores; their next times.

Source: Microsoft Learn, "Schedule machine learning pipeline jobs", section on cron expressions;
grammar of one field: NCrontab's expression page, which that section refers to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import islice

from msgspec import Struct

from worldsize.spec.due_times import Calendar, Trigger, due_times, times_of_day

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
    fields = "field" if count == 1 else "fields"
    return CronFault(
        0,
        len(expression),
        f"cron expression `{expression.strip()}` has {count} {fields}, not 5{hint}",
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
            "write `*` there, or use `recurrence` with `frequency: month`",
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
        number = (
            int(text)
            if text.isascii() and text.isdigit() and len(text) < 10
            else field.words.get(text.upper())
        )
        if number is None or (name == "step" and not text.isdigit()):
            yield CronFault(
                start, start + len(text), f"`{text}` is not {field.named}", _describe_forms(field)
            )
        elif not (1 <= number <= field.high if name == "step" else field.low <= number <= field.high):
            yield CronFault(
                start, start + len(text), _describe_out_of_range(text, name, field), _describe_forms(field)
            )
        else:
            numbers[name] = number
    if numbers.get("last", field.high) < numbers.get("first", field.low):
        message = (
            f"the range `{match.group('first')}-{match.group('last')}` of the {field.name} runs backwards"
        )
        yield CronFault(
            offset, offset + len(item), message, "write the smaller number first, or two ranges with a comma"
        )


def _describe_out_of_range(text: str, name: str, field: CronField) -> str:
    if name == "step":
        return f"step {text} of the {field.name} is outside 1 to {field.high}"
    return f"{field.name} {text} is outside {field.low} to {field.high}"


def _describe_forms(field: CronField) -> str:
    words = (
        ""
        if not field.words
        else f" or {next(iter(field.words))} to {list(field.words)[field.high - field.low]}"
    )
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

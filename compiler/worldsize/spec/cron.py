"""Cron expressions as Azure ML's schedules take them: five fields, two of which are ignored.

Source: Microsoft Learn, "Schedule machine learning pipeline jobs", section on cron expressions;
grammar of one field: NCrontab's expression page, which that section refers to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_LONG_DAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
_ITEM = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\w+))?")


class CronField(Struct, frozen=True):
    """One of the five: its name, its range, the words that stand for numbers, whether Azure reads it."""

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
    """What is wrong, and the offsets of the text that is."""

    start: int
    end: int
    message: str
    help: str
    ignored: bool = False  # correct, but Azure ML does not look at it


FIELDS = (
    CronField("minute", 0, 59, {}),
    CronField("hour", 0, 23, {}),
    CronField("day of the month", 1, 31, {}, read=False),
    CronField("month", 1, 12, {word: number for number, word in enumerate(_MONTHS, start=1)}, read=False),
    CronField("day of the week", 0, 6, {w: n for words in (_DAYS, _LONG_DAYS) for n, w in enumerate(words)}),
)


def check_cron(expression: str) -> list[CronFault]:
    """Everything wrong with an expression; nothing for a good one.

    Args:
        expression: Such as ``0 3 * * 1``: 03:00 every Monday.
    """
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
    found = False
    offset = part.start()
    for item in part.group().split(","):
        for fault in _check_item(item, offset, field):
            found = True
            yield fault
        offset += len(item) + 1
    if not found and not field.read and part.group() != "*":
        yield CronFault(
            part.start(),
            part.end(),
            f"the {field.name} of a cron expression is ignored by Azure ML: `{part.group()}` is read as `*`",
            "write `*` there, or use `recurrence` with `frequency: month`",
            ignored=True,
        )


def _check_item(item: str, offset: int, field: CronField) -> Iterator[CronFault]:
    match = _ITEM.fullmatch(item)
    if match is None:
        text = item or ","
        yield CronFault(offset, offset + max(len(item), 1), f"`{text}` is not {field.named}", _describe_forms(field))
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
            yield CronFault(start, start + len(text), f"`{text}` is not {field.named}", _describe_forms(field))
        elif not (1 <= number <= field.high if name == "step" else field.low <= number <= field.high):
            yield CronFault(start, start + len(text), _describe_out_of_range(text, name, field), _describe_forms(field))
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

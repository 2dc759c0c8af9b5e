"""What a schema cannot say of a schedule: cron fields, real dates, their order, unused days."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.spec import cron
from worldsize.spec.model import Located, Schedule
from worldsize.yaml.nodes import Mapping, Scalar

_DAYS_FOR = {"week_days": ("week", "month"), "month_days": ("month",)}


def check_schedule(schedule: Schedule) -> Iterator[Problem]:
    """Every fault of a schedule that passed the schema."""
    if schedule.cron is not None:
        yield from _check_cron_expression(schedule.cron)
    if schedule.recurrence is not None:
        yield from _check_unused_days(schedule.recurrence.node)
    yield from _check_times(schedule)


def _check_cron_expression(expression: Located[str]) -> Iterator[Problem]:
    for fault in cron.check_cron(expression.value):
        slug = "schedule-cron-field-ignored" if fault.ignored else "schedule-bad-cron"
        yield Problem(slug, _subspan(expression, fault.start, fault.end), fault.message, fault.help)


def _subspan(text: Located[str], start: int, end: int) -> Span:
    return text.node.subspan(start, end) if isinstance(text.node, Scalar) else text.span


def _check_unused_days(recurrence: object) -> Iterator[Problem]:
    pattern = recurrence.get("schedule") if isinstance(recurrence, Mapping) else None
    frequency = recurrence.get("frequency") if isinstance(recurrence, Mapping) else None
    if not isinstance(pattern, Mapping) or not isinstance(frequency, Scalar):
        return
    for name, frequencies in _DAYS_FOR.items():
        key = pattern.key(name)
        if key is not None and frequency.text.lower() not in frequencies:
            needed = " or ".join(f"`{word}`" for word in frequencies)
            yield Problem(
                "schedule-days-unused",
                key.span,
                f"`{name}` has no meaning when the frequency is `{frequency.text}`",
                f"set `frequency` to {needed}, or remove `{name}`",
                (Related(frequency.span, "the frequency"),),
            )


def _check_times(schedule: Schedule) -> Iterator[Problem]:
    moments: list[tuple[Located[str], dt.datetime]] = []
    for name, located in (("start_time", schedule.start_time), ("end_time", schedule.end_time)):
        if located is None:
            continue
        try:
            moments.append((located, dt.datetime.fromisoformat(located.value)))
        except ValueError:
            message = f"`{name}` is `{located.value}`, which is no date and time of the calendar"
            yield Problem("schedule-bad-time", located.span, message, 'write it as "2026-03-01T03:00:00"')
    if len(moments) == 2 and moments[1][1] <= moments[0][1]:
        (start, _), (end, _) = moments
        yield Problem(
            "schedule-end-before-start",
            end.span,
            f"`end_time` is {end.value} but `start_time` is {start.value}: the schedule never runs",
            "give an `end_time` after the `start_time`",
            (Related(start.span, "the schedule starts here"),),
        )

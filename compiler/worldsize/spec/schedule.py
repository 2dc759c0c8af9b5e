"""Checks schedules beyond the schema: cron fields, dates and their order, unused days, time zones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from msgspec.structs import replace

from worldsize.azureml import cron
from worldsize.azureml.cron import load_time_zones, normalise_time, windows_name
from worldsize.base.problem import Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Scalar
from worldsize.spec.model import Located, Schedule

_DAYS_FOR = {"week_days": ("week", "month"), "month_days": ("month",)}


def check_schedule(schedule: Schedule) -> Iterator[Problem]:
    """Report the faults of a schedule that passed the schema."""
    if schedule.cron is not None:
        for fault in cron.check_cron(schedule.cron.value):
            slug = "schedule-cron-field-ignored" if fault.ignored else "schedule-bad-cron"
            yield Problem(slug, schedule.cron.subspan(fault.start, fault.end), fault.message, fault.help)
    if schedule.recurrence is not None:
        yield from _check_unused_days(schedule.recurrence.node)
    yield from _check_times(schedule)


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
            message = f"`{name}` is `{located.value}`, which is not a valid date and time"
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


def check_trigger(trigger: Mapping) -> Iterator[Problem]:
    """Report the faults of a native trigger's cron expression, days, times and time zone.

    The shape's check reports values of another type.
    """
    kind = trigger.get("type")
    is_cron = isinstance(kind, Scalar) and kind.text.lower() == "cron"
    zone = _read_trigger_text(trigger, "time_zone")
    schedule = Schedule(
        span=trigger.span,
        name=None,
        cron=_read_trigger_text(trigger, "expression") if is_cron else None,
        recurrence=None if is_cron else Located({}, trigger.span, trigger.span, trigger),
        time_zone=zone,
        start_time=_read_time(trigger, "start_time"),
        end_time=_read_time(trigger, "end_time"),
    )
    yield from check_schedule(schedule)
    # Official examples write `utc`: the service looks a zone up whatever the case of its letters.
    if zone is not None and zone.value.lower() not in {name.lower() for name in load_time_zones()}:
        yield report_unknown_zone(zone.value, zone.span)


def _read_trigger_text(trigger: Mapping, name: str) -> Located[str] | None:
    node, key = trigger.get(name), trigger.key(name)
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or key is None:
        return None
    return Located(node.value, node.span, key.span, node)


def _read_time(trigger: Mapping, name: str) -> Located[str] | None:
    """The time as Azure ML reads it; a time that it cannot read is not changed."""
    located = _read_trigger_text(trigger, name)
    return located and replace(located, value=normalise_time(located.value) or located.value)


def report_unknown_zone(name: str, span: Span) -> Problem:
    """The problem of a time zone that is not in Azure ML's list."""
    meant = windows_name(name)
    is_iana = any(name in iana_names for iana_names in load_time_zones().values())
    if meant is None:
        help_ = "use a Windows name such as `W. Europe Standard Time`, or `UTC`"
    else:
        help_ = f"write `{meant}`" if is_iana else f"did you mean `{meant}`?"
    reason = "is an IANA name, but Azure ML takes Windows names" if is_iana else "is unknown to Azure ML"
    fix = Fix(span, meant) if is_iana and meant else None
    return Problem("schedule-unknown-time-zone", span, f"time zone `{name}` {reason}", help_, fix=fix)

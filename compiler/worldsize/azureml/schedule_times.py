"""Checks when schedules start: cron fields, dates and their order, unused days, time zones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

from worldsize.azureml import cron
from worldsize.azureml.cron import load_time_zones, normalise_time, windows_name
from worldsize.base.problem import Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar

_DAYS_FOR = {"week_days": ("week", "month"), "month_days": ("month",)}


def check_cron(expression: str, subspan: Callable[[int, int], Span]) -> Iterator[Problem]:
    """Report the faults of a cron expression; ``subspan`` gives the place of a part of it."""
    for fault in cron.check_cron(expression):
        slug = "schedule-cron-field-ignored" if fault.ignored else "schedule-bad-cron"
        yield Problem(slug, subspan(fault.start, fault.end), fault.message, fault.help)


def check_unused_days(recurrence: Node | None) -> Iterator[Problem]:
    """Report days of a recurrence that its frequency does not use."""
    pattern = recurrence.get("schedule") if isinstance(recurrence, Mapping) else None
    frequency = recurrence.get("frequency") if isinstance(recurrence, Mapping) else None
    if not isinstance(pattern, Mapping) or not isinstance(frequency, Scalar):
        return
    for name, frequencies in _DAYS_FOR.items():
        key = pattern.key(name)
        if key is not None and frequency.text.lower() not in frequencies:
            needed = " or ".join(f"`frequency: {word}`" for word in frequencies)
            yield Problem(
                "schedule-days-unused",
                key.span,
                f"`{name}` has no meaning when the frequency is `{frequency.text}`",
                f"write {needed}, or remove `{name}`",
                (Related(frequency.span, "the frequency"),),
            )


def check_period(**times: tuple[str, Span] | None) -> Iterator[Problem]:
    """Report a ``start_time`` or ``end_time`` that is not valid, and an end before the start."""
    moments: list[tuple[str, Span, dt.datetime]] = []
    for name, written in times.items():
        if written is None:
            continue
        try:
            moments.append((*written, dt.datetime.fromisoformat(written[0])))
        except ValueError:
            message = f"`{name}` is `{written[0]}`, which is not a valid date and time"
            yield Problem("schedule-bad-time", written[1], message, 'write it as "2026-03-01T03:00:00"')
    if len(moments) == 2 and moments[1][2] <= moments[0][2]:
        (start, at_start, _), (end, at_end, _) = moments
        yield Problem(
            "schedule-end-before-start",
            at_end,
            f"`end_time` is {end} but `start_time` is {start}: the schedule never runs",
            "give an `end_time` after the `start_time`",
            (Related(at_start, "the schedule starts here"),),
        )


def check_trigger(trigger: Node | None) -> Iterator[Problem]:
    """Report the faults of a native trigger's cron expression, days, times and time zone.

    The shape's check reports values of another type.
    """
    if not isinstance(trigger, Mapping):
        return
    kind = trigger.get("type")
    if not isinstance(kind, Scalar) or kind.text.lower() != "cron":
        yield from check_unused_days(trigger)
    elif (expression := _read_text(trigger, "expression")) is not None:
        yield from check_cron(expression.text, expression.subspan)
    start, end = (_read_time(trigger, name) for name in ("start_time", "end_time"))
    yield from check_period(start_time=start, end_time=end)
    zone = _read_text(trigger, "time_zone")
    # Official examples write `utc`: the service looks a zone up whatever the case of its letters.
    if zone is not None and zone.text.lower() not in {name.lower() for name in load_time_zones()}:
        yield report_unknown_zone(zone.text, zone.span)


def _read_text(trigger: Mapping, name: str) -> Scalar | None:
    node = trigger.get(name)
    return node if isinstance(node, Scalar) and isinstance(node.value, str) else None


def _read_time(trigger: Mapping, name: str) -> tuple[str, Span] | None:
    """The time as Azure ML reads it; a time that it cannot read is not changed."""
    node = _read_text(trigger, name)
    return None if node is None else (normalise_time(node.text) or node.text, node.span)


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

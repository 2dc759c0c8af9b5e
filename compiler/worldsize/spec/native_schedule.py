"""The trigger of Azure ML's own schedules, held to the rules of a spec's ``schedule:``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.base.problem import Problem
from worldsize.spec import schedule, time_zones
from worldsize.spec.model import Located, Schedule
from worldsize.yaml.nodes import Mapping, Scalar

# Azure ML drops offsets and fractions of a second; Python 3.10 cannot read all of them.
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?)?\s*(?:Z|[+-]\d\d:?\d\d)?", re.IGNORECASE
)


def check(trigger: Mapping) -> Iterator[Problem]:
    """The faults of a trigger's cron expression, days, times and time zone.

    Args:
        trigger: The mapping under ``trigger:``; values of another type are left to the shape's check.
    """
    kind = trigger.get("type")
    is_cron = isinstance(kind, Scalar) and kind.text.lower() == "cron"
    zone = _text(trigger, "time_zone")
    found = Schedule(
        span=trigger.span,
        name=None,
        cron=_text(trigger, "expression") if is_cron else None,
        recurrence=None if is_cron else Located({}, trigger.span, trigger.span, trigger),
        time_zone=zone,
        start_time=_time(_text(trigger, "start_time")),
        end_time=_time(_text(trigger, "end_time")),
    )
    yield from schedule.check(found)
    if zone is not None and zone.value not in time_zones.table():
        yield time_zones.unknown_zone(zone.value, zone.span)


def _text(trigger: Mapping, name: str) -> Located[str] | None:
    node, key = trigger.get(name), trigger.key(name)
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or key is None:
        return None
    return Located(node.value, node.span, key.span, node)


def _time(located: Located[str] | None) -> Located[str] | None:
    """The time as Azure ML reads it; one that it cannot read stays as it is."""
    match = _TIME.fullmatch(located.value.strip()) if located is not None else None
    if located is None or match is None:
        return located
    return Located(f"{match[1]}T{match[2] or '00:00:00'}", located.span, located.key_span, located.node)

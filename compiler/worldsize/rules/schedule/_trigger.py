"""When a schedule starts: numbers out of range, and UTC offsets that Azure ML drops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.job import JobSchedule
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence
from worldsize.rules.context import Context

_RANGES = {"hours": (0, 23), "minutes": (0, 59), "month_days": (1, 31)}


def check_recurrence_out_of_range(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    trigger = schedule.trigger
    if trigger is None:
        return
    interval = trigger.get("interval")
    if isinstance(interval, Scalar) and isinstance(interval.value, int) and interval.value < 1:
        unit = trigger.get("frequency")
        meaning = f": `1` is every {unit.text.lower()}" if isinstance(unit, Scalar) else ""
        message = f"`interval` is {interval.text} but must be at least 1"
        yield Finding(interval.span, message, f"write a whole number of at least 1{meaning}")
    pattern = trigger.get("schedule")
    if isinstance(pattern, Mapping):
        for name, (low, high) in _RANGES.items():
            yield from _outside(name, pattern.get(name), low, high)


def _outside(name: str, node: Node | None, low: int, high: int) -> Iterator[Finding]:
    for item in node.items if isinstance(node, Sequence) else [node]:
        if not isinstance(item, Scalar) or type(item.value) is not int or low <= item.value <= high:
            continue
        message = f"`{name}` has {item.value}, which is outside {low} to {high}"
        yield Finding(item.span, message, f"write a number from {low} to {high}")


_OFFSET = re.compile(r"T?\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)
_ZERO = ("Z", "z", "+00:00", "-00:00", "+0000", "-0000")


def check_start_offset_dropped(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
    trigger = schedule.trigger
    if trigger is None:
        return
    zone_node = trigger.get("time_zone")
    zone = zone_node.text if isinstance(zone_node, Scalar) else "UTC"
    for name in ("start_time", "end_time"):
        node = trigger.get(name)
        match = _OFFSET.search(node.text) if isinstance(node, Scalar) else None
        if not isinstance(node, Scalar) or match is None:
            continue
        if match[1] in _ZERO and zone.upper() == "UTC":
            continue
        plain = node.text[: match.start(1)].strip()
        message = f"the offset `{match[1]}` of `{name}` is dropped: it is read as {plain} in `{zone}`"
        span = node.subspan(match.start(1), match.end(1))
        yield Finding(span, message, f"write the time of `{zone}` without an offset")

"""An hour, minute, day or interval of a recurrence is out of range."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.job import JobSchedule
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence
from worldsize.rules.context import Context

_RANGES = {"hours": (0, 23), "minutes": (0, 59), "month_days": (1, 31)}


def check_job_schedule(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
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

"""A start or end time carries a UTC offset that Azure ML throws away.

The time is read as one of `time_zone`, which is UTC where it is not given; the offset is dropped without
a word.

Why: The schedule starts or ends hours before or after the time written.

Bad::

    start_time: "2030-01-01T00:00:00+02:00"

Good::

    start_time: "2030-01-01T00:00:00"

Fix: Write the time without offset, as the clock of `time_zone` shows it.

Source: azure-ai-ml, `TriggerBase`, which formats times without their offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.schedule import JobSchedule
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Scalar

RULE = Rule(
    "WS681",
    "start-offset-dropped",
    "error",
    since="0.1.0",
    summary="a start or end whose UTC offset is thrown away",
)


_OFFSET = re.compile(r"T?\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)
_ZERO = ("Z", "z", "+00:00", "-00:00", "+0000", "-0000")


@RULE.checks(JobSchedule)
def check(context: Context, schedule: JobSchedule) -> Iterator[Problem]:
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
        yield RULE.problem(span, message, f"write the time of `{zone}` without an offset")

"""Azure ML drops the UTC offset of a start or end time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.job import JobSchedule
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context

_OFFSET = re.compile(r"T?\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)
_ZERO = ("Z", "z", "+00:00", "-00:00", "+0000", "-0000")


def check_job_schedule(context: Context, schedule: JobSchedule) -> Iterator[Finding]:
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

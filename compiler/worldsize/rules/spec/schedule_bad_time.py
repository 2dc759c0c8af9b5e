"""``start_time`` or ``end_time`` is not a date and time of the calendar.

It is written as ``2026-03-01T03:00:00``, in quotes, because YAML turns the bare form into a date
object.

Why: The service refuses the schedule.

Bad::

    start_time: "2026-02-30T03:00:00"

Good::

    start_time: "2026-03-01T03:00:00"

Fix: Correct the date.

Source: Microsoft Learn, CLI (v2) schedule YAML schema: ISO 8601.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS135", "schedule-bad-time", "error", since="0.1.0", summary="a time that the calendar does not have"
)

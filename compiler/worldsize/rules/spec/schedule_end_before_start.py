"""A schedule ends before, or when, it starts.

Both times are in the schedule's time zone.

Why: It never runs, and nothing says so.

Bad::

    start_time: "2026-03-01T03:00:00"
    end_time: "2026-02-01T03:00:00"

Good::

    start_time: "2026-03-01T03:00:00"
    end_time: "2027-03-01T03:00:00"

Fix: Move the end behind the start.

Source: Microsoft Learn, CLI (v2) schedule YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS136",
    "schedule-end-before-start",
    "error",
    since="0.1.0",
    summary="a schedule that ends before it starts",
)

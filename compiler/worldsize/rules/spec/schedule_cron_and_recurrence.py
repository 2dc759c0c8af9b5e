"""A schedule gives both ``cron`` and ``recurrence``.

A schedule of Azure ML has one trigger.

Why: One of the two would have to be dropped.

Bad::

    cron: "0 3 * * 1"
    recurrence: {frequency: week, interval: 1}

Good::

    cron: "0 3 * * 1"

Fix: Keep one of the two, or make a second schedule.

Source: Microsoft Learn, CLI (v2) schedule YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS131", "schedule-cron-and-recurrence", "error", since="0.1.0", summary="a schedule with two triggers"
)

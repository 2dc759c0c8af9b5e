"""A schedule gives neither ``cron`` nor ``recurrence``.

``cron`` has five fields; ``recurrence`` has a frequency, an interval and a pattern.

Why: There is no time at which the pipeline would run.

Bad::

    schedule: {time_zone: UTC}

Good::

    schedule: {cron: "0 3 * * 1", time_zone: UTC}

Fix: Add one of the two.

Source: Microsoft Learn, CLI (v2) schedule YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS130",
    "schedule-needs-cron-or-recurrence",
    "error",
    since="0.1.0",
    summary="a schedule that does not say when",
)

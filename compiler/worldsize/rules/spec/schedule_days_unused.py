"""``week_days`` or ``month_days`` are given with a frequency that does not look at them.

``week_days`` count with ``week`` (and, in the service, ``month``), ``month_days`` with ``month``.

Why: The days look as if they restricted the runs, and do not.

Bad::

    recurrence: {frequency: day, interval: 1, schedule: {hours: 3, minutes: 0, week_days: monday}}

Good::

    recurrence: {frequency: week, interval: 1, schedule: {hours: 3, minutes: 0, week_days: monday}}

Fix: Set the frequency that goes with the days, or remove the days.

Source: Microsoft Learn, CLI (v2) schedule YAML schema, recurrence schedule.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS134",
    "schedule-days-unused",
    "warning",
    since="0.1.0",
    summary="days that the frequency does not look at",
)

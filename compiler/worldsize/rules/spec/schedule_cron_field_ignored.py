"""A cron expression restricts the day of the month or the month, which Azure ML ignores.

Both fields are read as ``*``: an expression for the first of the month runs every day.

Why: A monthly retraining becomes a daily one, at thirty times the cost.

Bad::

    cron: "0 3 1 * *"

Good::

    recurrence: {frequency: month, interval: 1, schedule: {hours: 3, minutes: 0, month_days: 1}}

Fix: Use ``recurrence`` with ``frequency: month``.

Source: Microsoft Learn, Schedule machine learning pipeline jobs: DAYS and MONTH are ignored and
treated as ``*``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS133",
    "schedule-cron-field-ignored",
    "warning",
    since="0.1.0",
    summary="a cron field that Azure ML ignores",
)

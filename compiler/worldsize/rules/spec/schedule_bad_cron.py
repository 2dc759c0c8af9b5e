"""A cron expression has a field that is malformed or out of range, or has not five fields.

The five are minute, hour, day of the month, month and day of the week. There is no field for
seconds. Azure ML reads the expression by the rules of NCrontab.

Why: The service refuses the schedule after the pipeline was submitted, without saying which field.

Bad::

    cron: "0 25 * * 1"

Good::

    cron: "0 3 * * 1"

Fix: Correct the field that is underlined.

Source: Microsoft Learn, Schedule machine learning pipeline jobs; NCrontab, Crontab expression.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS132",
    "schedule-bad-cron",
    "error",
    since="0.1.0",
    summary="a cron expression that Azure ML cannot read",
)

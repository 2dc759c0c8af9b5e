"""The time zone is not one of Azure ML's.

Azure ML takes the names of Windows (``W. Europe Standard Time``), not those of the IANA database
(``Europe/Berlin``).

Why: The service refuses the schedule.

Bad::

    time_zone: Europe/Berlin

Good::

    time_zone: W. Europe Standard Time

Fix: Write the Windows name; the help gives the one that was probably meant.

Source: azure-ai-ml, ``TimeZone``; Microsoft Learn, CLI (v2) schedule YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS137",
    "schedule-unknown-time-zone",
    "error",
    since="0.1.0",
    summary="a time zone that Azure ML does not know",
)

"""A value in ``worldsize.yml`` is of the wrong kind, or is not one of the words that can stand there.

Why: The value is passed over, and the check looks as if it counted.

Bad::

    severity: {WS204: minor}

Good::

    severity: {WS204: info}

Fix: Write what the message names.

Source: ``schemas/worldsize.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS031",
    "settings-wrong-value",
    "error",
    since="0.1.0",
    summary="a value that `worldsize.yml` cannot have there",
)

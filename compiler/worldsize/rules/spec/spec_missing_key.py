"""A key that must be given is absent.

The help shows the line to add, with an example from the schema.

Why: Without it the job is not defined: there is no value that could be assumed.

Bad::

    schedule: {recurrence: {interval: 1}}

Good::

    schedule: {recurrence: {frequency: day, interval: 1}}

Fix: Add the line that the help shows.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS102", "spec-missing-key", "error", since="0.1.0", summary="a key that must be given is absent")

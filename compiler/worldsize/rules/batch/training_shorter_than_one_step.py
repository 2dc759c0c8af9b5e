"""The epochs are so few that no optimizer step is made.

A fraction of an epoch is allowed, rounded to whole steps.

Why: The model that is registered is the one that was initialised.

Bad::

    epochs: 0.001

Good::

    epochs: 12

Fix: Give more ``epochs``.

Source: The plan: total steps = epochs × steps per epoch.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS307",
    "training-shorter-than-one-step",
    "error",
    since="0.1.0",
    summary="a training of less than one optimizer step",
)

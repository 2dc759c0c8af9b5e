"""``when:`` names a metric that the step before does not measure.

A component says in its tags which metrics it can produce.

Why: The gate could never pass, and the run would end in an error after all training.

Bad::

    when: {acuracy: ">= 0.97"}

Good::

    when: {accuracy: ">= 0.97"}

Fix: Write one of the metrics that the help names.

Source: The README of ``evaluate``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS640", "gate-metric-unknown", "error", since="0.1.0", summary="a gate on a metric that is not measured"
)

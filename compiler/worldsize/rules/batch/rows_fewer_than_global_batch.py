"""There are fewer training rows than one global batch takes.

The last, incomplete batch of an epoch is dropped, so an epoch has no step.

Why: The job runs to its end without one optimizer step.

Bad::

    rows: 200

Good::

    rows: 20000

Fix: Give more data, or a smaller global batch on fewer instances.

Source: The plan: steps per epoch = ⌊rows / global batch⌋.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS306",
    "rows-fewer-than-global-batch",
    "error",
    since="0.1.0",
    summary="fewer training rows than one global batch",
)

"""A count is given on the step and again in its ``distribution:``.

Both places are accepted, one at a time.

Why: The two can disagree, and a reader changes one of them.

Bad::

    process_count_per_instance: 4
    distribution: {type: pytorch, process_count_per_instance: 2}

Good::

    distribution: {type: pytorch, process_count_per_instance: 4}

Fix: Keep one.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS115",
    "step-count-given-twice",
    "error",
    since="0.1.0",
    summary="a count given on the step and in its distribution",
)

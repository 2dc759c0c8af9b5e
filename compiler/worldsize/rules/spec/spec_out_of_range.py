"""A number is too small or too large for its key, or a text is empty or too long.

Counts start at 1; a learning rate is greater than 0; a decay is below 1.

Why: The arithmetic of the plan has no meaning for such a value, and Azure ML refuses it.

Bad::

    instance_count: 0

Good::

    instance_count: 1

Fix: Write a value within the bounds of the message.

Source: ``schemas/spec.schema.json``; Azure ML's own bounds where it has them.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS106",
    "spec-out-of-range",
    "error",
    since="0.1.0",
    summary="a number or length outside what the key takes",
)

"""``with:`` gives a planned input a value that the plan contradicts.

The plan derives it from the topology and from ``scale:``; both numbers are in the message. A pinned
value under ``scale:`` is taken into account instead.

Why: The training step stops in its first second, or trains with a batch nobody planned.

Bad::

    learning_rate: 0.1

Good::

    reference: {batch_size: 32, learning_rate: 0.05}

Fix: Remove it, or pin it under ``scale:``.

Source: Goyal et al. 2017 for what depends on it.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS616",
    "planned-input-overridden",
    "error",
    since="0.1.0",
    summary="a planned input that is given another value",
)

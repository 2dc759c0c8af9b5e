"""A step names a component and has a command of its own.

A component brings its command; a step with ``command:`` is a component of its own.

Why: One of the two would have to be ignored, and it is not said which.

Bad::

    uses: train_ddp
    command: python train.py

Good::

    command: python -c "print('hello')"

Fix: Keep one of the two.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS111",
    "step-uses-and-command",
    "error",
    since="0.1.0",
    summary="a step with both a component and a command",
)

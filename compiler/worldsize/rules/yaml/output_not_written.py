"""The output could not be written: the disk is full, or the folder is not yours.

What was there before is untouched.

Why: A half-written pipeline would be submitted.

Bad::

    worldsize compile spec.yml -o /readonly/build

Good::

    worldsize compile spec.yml -o build

Fix: Free space or choose another folder, then compile again.

Source: The operating system's own answer, which the message quotes.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS021",
    "output-not-written",
    "error",
    since="0.1.0",
    summary="an output folder that could not be written",
)

"""A value is not one of the words that its key knows.

The help lists all of them, and the nearest first.

Why: An unknown word has no meaning, and guessing one could choose another algorithm.

Bad::

    tier: spot

Good::

    tier: dedicated

Fix: Write one of the words that the help lists.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS104", "spec-value-not-allowed", "error", since="0.1.0", summary="a word that the key does not know"
)

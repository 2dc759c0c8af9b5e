"""An open input could take the output of more than one earlier step.

Wiring by name needs exactly one candidate.

Why: A guess could train on the wrong data.

Bad::

    train:

Good::

    with: {shards: "${{parent.jobs.prepare.outputs.shards}}"}

Fix: Say which under ``with:``.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS611", "input-ambiguous", "error", since="0.1.0", summary="an input that two outputs could feed"
)

"""``with:`` gives an input that the component does not declare.

The message names the component and the help the nearest input.

Why: Azure ML refuses the step; a misspelt optional input would otherwise keep its default.

Bad::

    sed: 1

Good::

    seed: 1

Fix: correct the name, or remove the line.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS612", "input-unknown", "error", since="0.1.0", summary="an input that the component does not have"
)

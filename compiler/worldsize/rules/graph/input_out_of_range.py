"""A number is below the minimum or above the maximum that the component declares.

``min`` and ``max`` stand in the component's file.

Why: Azure ML checks the range only for literals in some places, and the script meets the value.

Bad::

    validation_fraction: 1.5

Good::

    validation_fraction: 0.2

Fix: write a number within the range.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS614", "input-out-of-range", "error", since="0.1.0", summary="an input outside its declared range"
)

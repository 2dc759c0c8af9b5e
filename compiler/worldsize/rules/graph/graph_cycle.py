"""Steps read each other's outputs in a circle, or a step reads its own.

The related places are the bindings that close the circle.

Why: none of them could ever start.

Bad::

    a: "${{parent.jobs.second.outputs.b}}"

Good::

    a: "azureml:seed-data:1"

Fix: remove one of the bindings.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS630", "graph-cycle", "error", since="0.1.0", summary="steps that wait for each other")

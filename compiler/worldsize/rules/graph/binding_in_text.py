"""A binding to another step has text around it.

A binding must be the whole value; only ``${{plan.NAME}}`` may stand inside a text.

Why: Azure ML does not resolve it, and the script gets the braces as a path.

Bad::

    shards: "${{parent.jobs.prepare.outputs.shards}}/train"

Good::

    shards: "${{parent.jobs.prepare.outputs.shards}}"

Fix: bind it alone and join the path inside the script.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS624", "binding-in-text", "error", since="0.1.0", summary="a binding with text around it")

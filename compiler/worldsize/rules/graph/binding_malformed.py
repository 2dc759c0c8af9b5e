"""An expression is not closed, has single braces, or blanks inside.

An expression is ``${{…}}`` with two braces on each side and no blanks inside the dotted name.

Why: Azure ML takes it as plain text, and the command receives the braces.

Bad::

    shards: "${parent.jobs.prepare.outputs.shards}"

Good::

    shards: "${{parent.jobs.prepare.outputs.shards}}"

Fix: write it as the help shows.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS620", "binding-malformed", "error", since="0.1.0", summary="an expression that is not one")

"""An expression begins with something that has no meaning at its place.

Under ``with:`` stand ``${{parent.jobs.STEP.outputs.NAME}}`` and ``${{plan.NAME}}``; in a command
``${{inputs.NAME}}``, ``${{outputs.NAME}}`` and ``${{plan.NAME}}``.

Why: Azure ML refuses the pipeline, or leaves the text as it is.

Bad::

    shards: "${{parents.jobs.prepare.outputs.shards}}"

Good::

    shards: "${{parent.jobs.prepare.outputs.shards}}"

Fix: begin it as the help shows.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS621",
    "binding-unknown-scope",
    "error",
    since="0.1.0",
    summary="an expression of a kind that cannot stand here",
)

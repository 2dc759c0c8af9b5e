"""A binding names a step that does not exist.

The caret is under the name inside the expression.

Why: the pipeline is refused at submission.

Bad::

    shards: "${{parent.jobs.prepar.outputs.shards}}"

Good::

    shards: "${{parent.jobs.prepare.outputs.shards}}"

Fix: correct the name of the step.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS622", "binding-unknown-step", "error", since="0.1.0", summary="a binding to a step that does not exist"
)

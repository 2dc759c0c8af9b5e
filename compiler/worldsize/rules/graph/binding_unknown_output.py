"""A binding names an output or input that the step does not have.

Also a command that writes to ``${{outputs.NAME}}`` without declaring it.

Why: the pipeline is refused at submission.

Bad::

    shards: "${{parent.jobs.prepare.outputs.shard}}"

Good::

    shards: "${{parent.jobs.prepare.outputs.shards}}"

Fix: correct the name, or declare the output.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS623",
    "binding-unknown-output",
    "error",
    since="0.1.0",
    summary="a binding to an output or input that does not exist",
)

"""A name or a reference does not have the form that is needed.

Step names follow Azure ML's own rule (lower-case letters, digits and ``_``, no digit first),
compute targets are ``azureml:<name>``, registered things carry a version.

Why: Azure ML refuses the pipeline, or takes the text for something else (a bare name for a file).

Bad::

    train-ddp:

Good::

    train_ddp:

Fix: Write it in the form that the help shows.

Source: azure-ai-ml, node names of a pipeline; Microsoft Learn, CLI (v2) pipeline job YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS105",
    "spec-bad-pattern",
    "error",
    since="0.1.0",
    summary="a name or reference of a form that is not accepted",
)

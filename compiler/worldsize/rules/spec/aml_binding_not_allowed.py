"""An expression ``${{…}}`` stands where Azure ML takes only a value.

Expressions are resolved in inputs, outputs and commands, not in counts or names.

Why: The job is refused at submission.

Bad::

    resources: {instance_count: "${{inputs.nodes}}"}

Good::

    resources: {instance_count: 2}

Fix: Write the value itself.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS150",
    "aml-binding-not-allowed",
    "error",
    since="0.1.0",
    summary="an expression where a value must stand",
)

"""A count is a fraction.

Azure ML cuts some fractions down without a word and refuses others.

Why: 2.5 instances become 2, and the plan that counted on more is wrong.

Bad::

    resources: {instance_count: 2.5}

Good::

    resources: {instance_count: 2}

Fix: Write a whole number.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS151", "aml-fraction", "error", since="0.1.0", summary="a fraction where a whole number must stand"
)

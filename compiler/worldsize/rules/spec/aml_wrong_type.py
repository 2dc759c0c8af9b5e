"""A value is text where Azure ML wants a number, a list where it wants a mapping, and the like.

Types are those of YAML 1.1: ``yes`` is true and ``1e-3`` is text. The message says what the value
was read as.

Why: The job is refused at submission, or gets another value than was meant.

Bad::

    resources: {instance_count: two}

Good::

    resources: {instance_count: 2}

Fix: Write a value of the type that the message names.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS142", "aml-wrong-type", "error", since="0.1.0", summary="a value of another type than Azure ML takes"
)

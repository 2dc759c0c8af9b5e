"""A key has no value, and Azure ML refuses null there.

``key:`` with nothing behind it is null in YAML.

Why: The job is refused at submission.

Bad::

    instance_count:

Good::

    instance_count: 2

Fix: Give it a value, or remove the key.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS145", "aml-empty-value", "error", since="0.1.0", summary="a key without a value")

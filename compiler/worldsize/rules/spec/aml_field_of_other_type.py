"""A key belongs to another ``type`` of the same mapping.

The message names the type that has it, and the help what this type takes.

Why: The job is refused at submission.

Bad::

    retry_settings: {max_retries: 2}

Good::

    limits: {timeout: 3600}

Fix: Remove the key, or change ``type``.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS148", "aml-field-of-other-type", "error", since="0.1.0", summary="a key that another type has")

"""A key that Azure ML knows stands at a place where it has no meaning.

The commonest are ``instance_count`` beside ``resources`` and ``process_count_per_instance`` outside
``distribution``.

Why: The job is refused, or runs on one node because the count was never read.

Bad::

    instance_count: 4

Good::

    resources: {instance_count: 4}

Fix: Move it to the place that the message names.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS147", "aml-misplaced-key", "error", since="0.1.0", summary="a key that belongs somewhere else")

"""A key that Azure ML accepts and drops, or sends on without a known meaning.

``settings`` and steps that use a component keep unknown keys without complaint.

Why: The setting looks as if it had an effect.

Bad::

    settings: {default_compute: azureml:gpu-cluster, forceRerun: true}

Good::

    settings: {default_compute: azureml:gpu-cluster, force_rerun: true}

Fix: Correct its spelling, or remove it.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS149", "aml-ignored-key", "warning", since="0.1.0", summary="a key that Azure ML ignores")

"""Two compute profiles have the same target and other settings.

Compile writes one file a cluster.

Why: Which of the two the cluster would get would depend on their order.

Bad::

    big: {target: azureml:gpu-cluster, instance_type: Standard_ND96asr_v4}

Good::

    big: {target: azureml:big-cluster, instance_type: Standard_ND96asr_v4}

Fix: Give both the same settings, or each its own target.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS211",
    "compute-conflict",
    "error",
    since="0.1.0",
    summary="two profiles that describe one cluster differently",
)

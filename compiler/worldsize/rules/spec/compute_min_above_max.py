"""A compute profile keeps more instances running than it may have.

``min_instances`` are kept even when nothing uses them; ``max_instances`` bounds the cluster.

Why: Azure refuses to make the cluster.

Bad::

    min_instances: 8, max_instances: 4

Good::

    min_instances: 0, max_instances: 4

Fix: Lower the minimum (0 costs nothing when idle) or raise the maximum.

Source: Microsoft Learn, CLI (v2) compute cluster (AmlCompute) YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS120",
    "compute-min-above-max",
    "error",
    since="0.1.0",
    summary="a cluster whose minimum is above its maximum",
)

"""A step asks for more instances than its cluster may have.

``max_instances`` of the profile bounds the cluster that compile writes.

Why: the job waits in the queue without end.

Bad::

    instance_count: 8

Good::

    instance_count: 4

Fix: ask for fewer, or raise ``max_instances``.

Source: Microsoft Learn, CLI (v2) compute cluster (AmlCompute) YAML schema.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS209",
    "instance-count-exceeds-max",
    "error",
    since="0.1.0",
    summary="more instances than the cluster may have",
)

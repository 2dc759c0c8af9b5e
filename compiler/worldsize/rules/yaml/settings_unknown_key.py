"""``worldsize.yml`` has a key that worldsize does not read.

Why: What the key was meant to say does not count, and the check looks as if it did.

Bad::

    ignored: [WS4]

Good::

    ignore: [WS4]

Fix: Write one of ``compute``, ``select``, ``ignore``, ``severity`` and ``allow``; a cluster has
``instance_type``, ``max_instances`` and ``tier``.

Source: ``schemas/worldsize.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS030",
    "settings-unknown-key",
    "error",
    since="0.1.0",
    summary="a key that `worldsize.yml` does not have",
)

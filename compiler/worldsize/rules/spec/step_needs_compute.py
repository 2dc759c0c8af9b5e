"""A step names no compute profile although the spec has several.

With one profile every step runs on it; with several each step says which.

Why: a training step on the CPU cluster, or sharding on sixteen GPUs, is not a default to guess.

Bad::

    train: {uses: train_ddp}

Good::

    compute: gpu

Fix: add ``compute:`` with one of the profiles.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS113", "step-needs-compute", "error", since="0.1.0", summary="a step that does not say where it runs"
)

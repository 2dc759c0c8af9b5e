"""The pinned global batch is no multiple of what it must be a multiple of.

A global batch is samples per device × accumulation × world size, all whole numbers. The help names
the nearest that are.

Why: Ranks would take different numbers of samples, and gradients would be averaged with wrong
weights.

Bad::

    global_batch_size: 250

Good::

    global_batch_size: 256

Fix: Write one of the nearest.

Source: DeepSpeed configuration: train_batch_size = micro-batch × accumulation × GPUs.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS301",
    "global-batch-does-not-factor",
    "error",
    since="0.1.0",
    summary="a pinned global batch that cannot be shared equally",
)

"""The pinned global batch leaves each process a number with no large divisor.

The share is then computed in many small pieces.

Why: A GPU is slow on tiny batches, at the same price.

Bad::

    global_batch_size: 296

Good::

    global_batch_size: 256

Fix: Write one of the batches that the help names.

Source: DeepSpeed configuration: train_batch_size = micro-batch × accumulation × GPUs.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS304",
    "micro-batch-small",
    "warning",
    since="0.1.0",
    summary="a global batch that leaves needlessly small micro-batches",
)

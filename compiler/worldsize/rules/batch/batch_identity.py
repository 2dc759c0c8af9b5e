"""Global batch, batch per device and accumulation are all pinned and do not multiply up.

The message shows the product.

Why: The learning rate would be scaled for a batch that is not trained with.

Bad::

    global_batch_size: 512

Good::

    global_batch_size: 256

Fix: Correct one of the three, or leave it to be derived.

Source: DeepSpeed configuration: train_batch_size = micro-batch × accumulation × GPUs.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS302", "batch-identity", "error", since="0.1.0", summary="pinned batches that contradict each other"
)

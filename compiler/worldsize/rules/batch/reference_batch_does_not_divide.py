"""The reference batch is no multiple of the reference GPUs.

``batch_size`` is the batch of all reference GPUs together.

Why: The micro-batch that is known to fit a GPU cannot be told.

Bad::

    reference: {batch_size: 30, learning_rate: 0.05, gpus: 4}

Good::

    reference: {batch_size: 32, learning_rate: 0.05, gpus: 4}

Fix: Correct it, or pin ``batch_size_per_device``.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS303",
    "reference-batch-does-not-divide",
    "error",
    since="0.1.0",
    summary="a reference batch that its GPUs cannot share",
)

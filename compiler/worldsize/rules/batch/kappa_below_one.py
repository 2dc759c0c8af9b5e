"""The global batch is smaller than the batch that worked.

κ is the one divided by the other; the learning rate is scaled down with it.

Why: Training on more devices with a smaller batch is slower and rarely meant.

Bad::

    batch_size_per_device: 2

Good::

    batch_size_per_device: 32

Fix: Pin the global batch to the reference batch to keep it.

Source: Goyal et al., Accurate, Large Minibatch SGD, 2017.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS305",
    "kappa-below-one",
    "info",
    since="0.1.0",
    summary="a global batch smaller than the reference batch",
)

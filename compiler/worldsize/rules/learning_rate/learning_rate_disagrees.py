"""The pinned learning rate is not what the rule gives.

The message has both. A rate that was tuned at this batch is fine: say so in a suppression.

Why: A rate copied from one GPU is not scaled; one that was scaled by hand may be scaled twice.

Bad::

    learning_rate: 0.05

Good::

    learning_rate: 0.4

Fix: Write what the rule gives, or leave it out: it is derived.

Source: Goyal et al., Accurate, Large Minibatch SGD, 2017.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS402",
    "learning-rate-disagrees",
    "warning",
    since="0.1.0",
    summary="a pinned learning rate that its rule does not give",
)

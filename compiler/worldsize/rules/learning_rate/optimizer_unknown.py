"""``rule: auto`` cannot choose, because the optimizer is not said or not known.

The linear rule belongs to SGD and momentum, the square-root rule to Adam and its family.

Why: The wrong rule at 8 times the batch is wrong by almost a factor of 3.

Bad::

    reference: {batch_size: 32, learning_rate: 0.05}

Good::

    optimizer: sgd

Fix: Say the optimizer, or the rule.

Source: Goyal et al., Accurate, Large Minibatch SGD, 2017. Malladi et al., On the SDEs and Scaling
Rules for Adaptive Gradient Algorithms, 2022.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS401", "optimizer-unknown", "error", since="0.1.0", summary="a scaling rule that cannot be chosen"
)

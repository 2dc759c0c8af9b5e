"""The square-root rule has no valid beta at this growth of the batch.

The rule needs κ(1 − β) below 1: it is derived for a batch that grows by less than 1 / (1 − β).

Why: Beyond it the dynamics that the rule preserves do not exist, and the rate is a guess.

Bad::

    global_batch_size: 512

Good::

    global_batch_size: 256

Fix: Keep the batch smaller, or tune the rate anew.

Source: Malladi et al., On the SDEs and Scaling Rules for Adaptive Gradient Algorithms, 2022.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS403",
    "sqrt-rule-out-of-range",
    "warning",
    since="0.1.0",
    summary="the square-root rule beyond its range",
)

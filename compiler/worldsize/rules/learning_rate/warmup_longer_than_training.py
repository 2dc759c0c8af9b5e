"""The warm-up is longer than the training.

The rate climbs over ``warmup_epochs`` from the reference rate to the scaled one.

Why: Training ends before the planned learning rate is reached.

Bad::

    warmup_epochs: 20

Good::

    warmup_epochs: 2

Fix: Shorten it, or leave it out: a tenth of the training, at most 5 epochs, is derived.

Source: Goyal et al., Accurate, Large Minibatch SGD, 2017.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS404",
    "warmup-longer-than-training",
    "warning",
    since="0.1.0",
    summary="a warm-up that outlasts the training",
)

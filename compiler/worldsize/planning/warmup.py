"""How long the learning rate climbs from ``η`` to ``η′``."""

from __future__ import annotations

from worldsize.planning.model import Rule
from worldsize.planning.numbers import clean

# Goyal et al. 2017, section 2.2, warm up over 5 of 90 epochs.
EPOCHS = 5.0
LARGEST_SHARE = 0.1


def default_epochs(rule: Rule, kappa: float, epochs: float | None) -> float:
    """Epochs of warm-up where nothing is said: 5, but at most a tenth of the training.

    Only the linear rule needs it, and only where it raises the rate: no warm-up for ``κ ≤ 1``.

    Args:
        rule: the scaling rule in force.
        kappa: growth of the batch.
        epochs: length of the training, None where unknown.
    """
    if rule != "linear" or kappa <= 1:
        return 0.0
    return EPOCHS if epochs is None else clean(min(EPOCHS, LARGEST_SHARE * epochs))

"""How often to write checkpoints: the one copy that the compiler and the trainer share.

Too rarely, and an interruption loses much; too often, and the checkpoints themselves cost much. What loses
least follows from what a checkpoint costs and how often something interrupts the training (Young 1974, "A
first order approximation to the optimum checkpoint interval"; Daly 2006, "A higher order estimate of the
optimum checkpoint interval for restart dumps"). Nothing here imports more than the standard library.
"""

from __future__ import annotations

import math

ASSUMED_COST = 1.0  # seconds, until a checkpoint has been measured


def best_interval(cost: float, between: float) -> float:
    """Seconds of training between checkpoints that lose the least (Daly 2006, equation 37).

    Args:
        cost: seconds that the training waits for one checkpoint, ``δ``.
        between: mean seconds between interruptions, ``M``.

    Returns:
        ``√(2δM)·(1 + √(δ/2M)/3 + (δ/2M)/9) − δ`` for ``δ < 2M``, else ``M``.
    """
    if cost >= 2 * between:
        return between
    ratio = cost / (2 * between)
    return math.sqrt(2 * cost * between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def lost_fraction(interval: float, cost: float, between: float) -> float:
    """Part of the time that is lost, to checkpoints and to work done again (Daly 2006, equation 20).

    Interruptions come at random, at a constant rate; the time to start again is not counted.

    Args:
        interval: seconds of training between checkpoints, ``τ``.
        cost: seconds that the training waits for one checkpoint, ``δ``.
        between: mean seconds between interruptions, ``M``.

    Returns:
        ``1 − (τ/M) / (e^((τ+δ)/M) − 1)``, from 0 to 1.
    """
    exponent = (interval + cost) / between
    return 1 - interval / between / math.expm1(exponent) if exponent < 700 else 1.0

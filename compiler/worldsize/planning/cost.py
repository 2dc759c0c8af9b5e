"""What a training costs: the time its instances are billed, with evictions, and the price of that time.

Evictions come at random, at a constant rate ``λ = 1/M`` for the whole step: any of its instances ends it.
Work since the last checkpoint is lost, and a step without checkpoints starts anew. The time until a segment
of ``x`` seconds has once run without an interruption is ``M·(e^(x/M) − 1)``, and ``e^(R/M)`` times that if
each start takes ``R`` seconds (Daly 2006, "A higher order estimate of the optimum checkpoint interval for
restart dumps", equation 20; without checkpoints it is the renewal argument for one segment). The time until
Azure has capacity again is not counted: evicted instances are not billed while they are gone.
"""

from __future__ import annotations

import math

from msgspec import Struct

from worldsize.facts.prices import Price
from worldsize.planning.resilience import LOW_PRIORITY_SECONDS
from wstrain.checkpoint import save_policy

_LARGEST_EXPONENT = 700.0  # of e; a float overflows just above


class Evictions(Struct, frozen=True):
    """How often a step is interrupted, and what it saves."""

    mean_seconds: float  # between two interruptions of the whole step, ``M``; finite
    checkpoint_seconds: float | None = None  # that the training waits for one; None if it saves none
    interval_seconds: float | None = None  # of training between checkpoints; None for the best interval
    restart_seconds: float = 0.0  # from the start of the instances to the first new step, ``R``


class Cost(Struct, frozen=True):
    """What a training is expected to take and to cost on one tier; None if the price is unknown."""

    seconds: float  # that its instances are billed; infinite if it does not finish
    amount: float | None  # of all instances
    currency: str | None  # of the amount, ISO 4217
    expected_loss: float  # the part of the seconds that evictions and checkpoints take, from 0 to 1

    @property
    def hours(self) -> float:
        """The expected hours."""
        return self.seconds / 3600


def mean_seconds_between_evictions(instances: int) -> float:
    """Mean seconds between two evictions of a step on low-priority instances: an assumption, not a figure.

    Azure states how often it evicts as a band for each size and region; see `resilience.py`.
    """
    return LOW_PRIORITY_SECONDS / instances


def cost_training(
    seconds: float, instances: int, price: Price | None, evictions: Evictions | None = None
) -> Cost:
    """The cost of a training that takes ``seconds`` on ``instances`` without interruptions.

    Args:
        seconds: Seconds of training, above 0.
        instances: Instances, at least 1.
        price: Of one instance for an hour, on the tier in question; None if it is unknown.
        evictions: What interrupts the training; None for a training that nothing interrupts.

    Raises:
        ValueError: A number is out of range.
    """
    if not (seconds > 0 and math.isfinite(seconds) and instances >= 1):
        raise ValueError(f"{seconds} seconds on {instances} instances are not a training")
    expected = seconds if evictions is None else expected_seconds(seconds, evictions)
    loss = 1 - seconds / expected
    if price is None:
        return Cost(expected, None, None, loss)
    return Cost(expected, expected / 3600 * instances * price.amount, price.currency, loss)


def expected_seconds(seconds: float, evictions: Evictions) -> float:
    """Expected seconds of a training of ``seconds`` with evictions; infinite if it does not finish.

    A training that is shorter than the interval writes no checkpoint on its way.

    Raises:
        ValueError: A number of ``evictions`` is out of range.
    """
    between, saving = evictions.mean_seconds, evictions.checkpoint_seconds
    interval = evictions.interval_seconds
    if not (0 < between < math.inf) or evictions.restart_seconds < 0 or (saving is not None and saving < 0):
        raise ValueError("the time between evictions must be above 0 and finite, other times not negative")
    if interval is not None and not interval > 0:
        raise ValueError("the interval between checkpoints is above 0")
    restart = _exp(evictions.restart_seconds / between)
    whole = restart * _segment_seconds(seconds, between)
    if saving is None:
        return whole
    every = interval or save_policy.best_interval(saving or save_policy.ASSUMED_COST_SECONDS, between)
    if seconds <= every:
        return whole
    kept = 1 - save_policy.lost_fraction(every, saving, between)
    return max(seconds, restart * seconds / kept) if kept > 0 else math.inf


def low_priority_costs_more(
    seconds: float, instances: int, dedicated: Price, low_priority: Price, evictions: Evictions
) -> bool:
    """Whether evictions make a training on low-priority instances dearer than on dedicated ones.

    False where the two prices are of different currencies or regions, which cannot be compared.
    """
    if (dedicated.currency, dedicated.region) != (low_priority.currency, low_priority.region):
        return False
    evicted = cost_training(seconds, instances, low_priority, evictions)
    whole = cost_training(seconds, instances, dedicated)
    return evicted.amount is not None and whole.amount is not None and evicted.amount > whole.amount


def _segment_seconds(seconds: float, between: float) -> float:
    """Expected seconds until ``seconds`` in a row pass without an interruption: ``M·(e^(x/M) − 1)``."""
    exponent = seconds / between
    return max(seconds, between * math.expm1(exponent)) if exponent < _LARGEST_EXPONENT else math.inf


def _exp(exponent: float) -> float:
    return math.exp(exponent) if exponent < _LARGEST_EXPONENT else math.inf

"""The options that no other is better than in both time and money, and those within a deadline or budget."""

from __future__ import annotations

import math
from collections.abc import Iterable

from worldsize.planning.advising.model import Limits, Option


def find_front(options: Iterable[Option]) -> list[Option]:
    """The Pareto front, the fastest first: each following option is slower and cheaper.

    Of options that are equal in both, the one with the fewest instances is kept.
    """
    front: list[Option] = []
    cheapest = math.inf
    for option in sorted(options, key=rank_by_time):
        amount = expected_amount(option)
        if amount < cheapest:
            front.append(option)
            cheapest = amount
    return front


def select_within(options: Iterable[Option], limits: Limits) -> list[Option]:
    """The options whose expected time and money are within the limits."""
    seconds = math.inf if limits.seconds is None else limits.seconds
    amount = math.inf if limits.amount is None else limits.amount
    return [
        option
        for option in options
        if option.seconds.expected <= seconds and expected_amount(option) <= amount
    ]


def expected_amount(option: Option) -> float:
    """The expected money; infinite if the price is unknown."""
    return math.inf if option.amount is None else option.amount.expected


def rank_by_time(option: Option) -> tuple[float, float, int, str]:
    """The order of options by time, then money, then the number of instances."""
    count = option.cluster.instance_count
    return (option.seconds.expected, expected_amount(option), count, option.instance_type)


def rank_by_money(option: Option) -> tuple[float, float, int, str]:
    """The order of options by money, then time, then the number of instances."""
    count = option.cluster.instance_count
    return (expected_amount(option), option.seconds.expected, count, option.instance_type)

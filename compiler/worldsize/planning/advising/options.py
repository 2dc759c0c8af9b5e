"""What a layout on a cluster takes and costs on each tier, and which options are better than others."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from worldsize.facts.prices import Tier
from worldsize.planning.advising.model import Limits, Option, Question
from worldsize.planning.cost import Cost, Evictions, cost_training, mean_seconds_between_evictions
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.model import Case, Cluster, Estimate, Interval, Training


def make_option(question: Question, cluster: Cluster, training: Training, tier: Tier) -> Option | None:
    """Time and money of one layout; None where a link is unknown, or evictions let it never finish."""
    answer = estimate(question.workload, training, cluster, question.calibration)
    return None if answer is None else price_option(question, cluster, training, tier, answer)


def price_option(
    question: Question, cluster: Cluster, training: Training, tier: Tier, answer: Estimate
) -> Option | None:
    """The same for a speed that is estimated already."""
    price = question.find_price(cluster.instance_type or "", tier)
    evictions = _describe_evictions(question, cluster, tier)
    speed, count = answer.samples_per_second, cluster.instance_count
    low, expected, high = (
        cost_training(question.samples / rate, count, price, evictions)
        for rate in (speed.high, speed.expected, speed.low)
    )
    if expected.seconds == float("inf"):
        return None
    return Option(
        cluster=cluster,
        tier=tier,
        training=training,
        estimate=answer,
        memory_bytes=question.count_memory(Case(question.workload, training, cluster)),
        seconds=Interval(low.seconds, expected.seconds, high.seconds),
        amount=_bound_amount(low, expected, high),
        price=price,
        expected_loss=expected.expected_loss,
    )


def _describe_evictions(question: Question, cluster: Cluster, tier: Tier) -> Evictions | None:
    if tier == "dedicated":
        return None
    return Evictions(
        mean_seconds=mean_seconds_between_evictions(cluster.instance_count),
        checkpoint_seconds=question.checkpoint_seconds,
    )


def _bound_amount(low: Cost, expected: Cost, high: Cost) -> Interval | None:
    if low.amount is None or expected.amount is None or high.amount is None:
        return None
    return Interval(low.amount, expected.amount, high.amount)


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
    amount, seconds, count, name = rank_by_money(option)
    return (seconds, amount, count, name)


def rank_by_money(option: Option) -> tuple[float, float, int, str]:
    """The order of options by money, then time, then the number of instances."""
    count = option.cluster.instance_count
    return (expected_amount(option), option.seconds.expected, count, option.instance_type)


class Comparison(Struct, frozen=True):
    """Another option over this one: above 1, this one is better. The last three multiply to ``cost``."""

    other: Option
    cost: float  # money of the other over that of this one
    seconds: float  # time of the other over that of this one
    peak_per_money: float  # peak arithmetic that this one rents for a unit of money, over that of the other
    utilisation: float  # share of the peak that the model's FLOPs use, over that of the other
    kept_time: float  # share of the time that evictions leave, over that of the other


def compare(option: Option, other: Option) -> Comparison | None:
    """Compare an option with another; None if a price or a utilisation is unknown, or currencies differ."""
    if option.price is None or other.price is None or option.amount is None or other.amount is None:
        return None
    used, theirs = (one.estimate.model_flops_utilisation for one in (option, other))
    if not used or not theirs or option.price.currency != other.price.currency:
        return None
    return Comparison(
        other=other,
        cost=other.amount.expected / option.amount.expected,
        seconds=other.seconds.expected / option.seconds.expected,
        peak_per_money=_peak_per_money(option, option.price.amount)
        / _peak_per_money(other, other.price.amount),
        utilisation=used / theirs,
        kept_time=(1 - option.expected_loss) / (1 - other.expected_loss),
    )


def _peak_per_money(option: Option, price: float) -> float:
    cluster = option.cluster
    return cluster.gpu.peak_flops[option.training.precision] * cluster.gpus_per_instance / price

"""What a layout on a cluster takes and costs for the whole training, on each tier."""

from __future__ import annotations

from worldsize.facts.prices import Tier
from worldsize.planning.advising.model import Option, Question
from worldsize.planning.cost import Cost, Evictions, cost_training, mean_seconds_between_evictions
from worldsize.planning.estimates.estimate import estimate
from worldsize.planning.estimates.memory import estimate_need
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
        memory_bytes=estimate_need(Case(question.workload, training, cluster)).total,
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
        restart_seconds=question.restart_seconds,
    )


def _bound_amount(low: Cost, expected: Cost, high: Cost) -> Interval | None:
    if low.amount is None or expected.amount is None or high.amount is None:
        return None
    return Interval(low.amount, expected.amount, high.amount)

"""Why one option costs less than another, as factors that multiply to the ratio of their costs."""

from __future__ import annotations

from msgspec import Struct

from worldsize.planning.advising.model import Option


class Comparison(Struct, frozen=True):
    """Another option over this one: above 1, this one is better.

    ``cost`` is the product of the three ratios below it.

    Attributes:
        cost: money of the other over that of this one.
        seconds: time of the other over that of this one.
        peak_per_money: peak arithmetic that this one rents for a unit of money, over that of the other.
        utilisation: share of the peak that the model's FLOPs use, over that of the other.
        kept_time: share of the time that evictions leave, over that of the other.
    """

    other: Option
    cost: float
    seconds: float
    peak_per_money: float
    utilisation: float
    kept_time: float


def compare(option: Option, other: Option) -> Comparison | None:
    """Compare an option with another; None if a price or a utilisation is unknown, or currencies differ."""
    if option.price is None or other.price is None or option.amount is None or other.amount is None:
        return None
    used, theirs = (each.estimate.model_flops_utilisation for each in (option, other))
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

"""What the commands about time and cost answer; also for JSON: rounded, and null where it is unknown."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins

from worldsize.facts.prices import TIERS, Price, PriceList, Tier
from worldsize.planning import cost
from worldsize.planning.cost import Cost, Evictions
from worldsize.planning.estimates.calibration import NOT_CALIBRATED, Calibration
from worldsize.planning.estimates.model import Case, Estimate
from worldsize.planning.resilience import Saving
from worldsize.resolving.step_estimates import StepEstimate

_DIGITS = 5


class StepCost(Struct, frozen=True):
    """The prices of one instance and the costs of the whole training; None where either is unknown."""

    dedicated_price: Price | None
    low_priority_price: Price | None
    dedicated: Cost | None
    low_priority: Cost | None


def cost_step(
    case: Case, seconds: float | None, checkpoint_seconds: float | None, prices: PriceList
) -> StepCost:
    """The cost of ``seconds`` on a cluster; ``checkpoint_seconds`` is None for a training that saves none."""
    name, instances = case.cluster.instance_type, case.cluster.instance_count
    if name is None:
        return StepCost(None, None, None, None)
    dedicated, low = prices.find(name, "dedicated"), prices.find(name, "low_priority")
    if seconds is None:
        return StepCost(dedicated, low, None, None)
    evictions = Evictions(cost.mean_seconds_between_evictions(instances), checkpoint_seconds)
    return StepCost(
        dedicated,
        low,
        cost.cost_training(seconds, instances, dedicated) if dedicated is not None else None,
        cost.cost_training(seconds, instances, low, evictions) if low is not None else None,
    )


class Estimated(Struct, frozen=True):
    """What an estimate file asks, and the answer; None where a rate is unknown, as ``unknown`` says."""

    case: Case
    estimate: Estimate | None
    cost: StepCost
    region: str  # of the prices
    unknown: str | None
    calibration: Calibration = NOT_CALIBRATED  # by measured runs


class StepForecast(Struct, frozen=True):
    """The time and the cost of one training step of a spec."""

    time: StepEstimate
    cost: StepCost | None  # None where the time is unknown
    region: str
    saving: Saving | None  # how it writes checkpoints; None where nothing says that it does
    tier: Tier = "dedicated"


def describe_estimated(estimated: Estimated) -> dict[str, Any]:
    """The answer to an estimate file: the same keys whatever is known."""
    hourly = _describe_hour(estimated.cost, estimated.region, estimated.case.cluster.instance_count)
    return {
        **_describe_estimate(estimated.estimate),
        "cost_per_hour": hourly,
        "unknown": estimated.unknown,
    }


def describe_forecast(forecast: StepForecast) -> dict[str, Any]:
    """The time and cost of a training step."""
    time, cost, case = forecast.time, forecast.cost, forecast.time.case
    instances = case.cluster.instance_count if case is not None else 1
    return {
        **_describe_estimate(time.estimate),
        "epoch_seconds": _round(time.epoch_seconds),
        "total_seconds": _round(time.total_seconds),
        "cost_per_hour": None if cost is None else _describe_hour(cost, forecast.region, instances),
        "cost": None if cost is None else _round({tier: getattr(cost, tier) for tier in TIERS}),
        "unknown": time.unknown,
    }


def _describe_estimate(estimate: Estimate | None) -> dict[str, Any]:
    answer: dict[str, Any] = _round(estimate) or dict.fromkeys(Estimate.__struct_fields__)
    return answer


def _round(value: Any) -> Any:
    if isinstance(value, Struct):
        return _round(to_builtins(value))
    if isinstance(value, dict):
        return {name: _round(inner) for name, inner in value.items()}
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _describe_hour(cost: StepCost, region: str, instances: int) -> dict[str, Any] | None:
    """What all instances cost in an hour."""
    stated = cost.dedicated_price or cost.low_priority_price
    if stated is None:
        return None

    def amount(price: Price | None) -> float | None:
        return None if price is None else float(_round(price.amount * instances))

    return {
        "currency": stated.currency,
        "dedicated": amount(cost.dedicated_price),
        "low_priority": amount(cost.low_priority_price),
        "region": region,
        "as_of": stated.as_of.isoformat(),
    }

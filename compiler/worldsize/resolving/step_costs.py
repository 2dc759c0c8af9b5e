"""What an hour of a step costs, and the whole of its training, dedicated and low priority."""

from __future__ import annotations

from msgspec import Struct

from worldsize.facts.prices import Price, PriceList
from worldsize.planning import cost
from worldsize.planning.cost import Cost, Evictions
from worldsize.planning.model import StepPlan


class StepCost(Struct, frozen=True):
    """The prices of one instance and the costs of the whole training; None where either is unknown."""

    dedicated_price: Price | None
    low_priority_price: Price | None
    dedicated: Cost | None
    low_priority: Cost | None


def cost_step(
    instance_type: str, instances: int, seconds: float | None, plan: StepPlan | None, prices: PriceList
) -> StepCost:
    """The cost of ``seconds`` on instances of a VM size; None for the whole where they are unknown."""
    dedicated, low = prices.find(instance_type, "dedicated"), prices.find(instance_type, "low_priority")
    if seconds is None:
        return StepCost(dedicated, low, None, None)
    evictions = Evictions(cost.mean_seconds_between_evictions(instances), _checkpoint_seconds(plan))
    return StepCost(
        dedicated,
        low,
        cost.cost_training(seconds, instances, dedicated) if dedicated is not None else None,
        cost.cost_training(seconds, instances, low, evictions) if low is not None else None,
    )


def _checkpoint_seconds(plan: StepPlan | None) -> float | None:
    """Seconds of one checkpoint; None for a step that is not known to save any."""
    from wstrain.checkpoint import save_policy  # few commands ask for it

    for row in plan.derivations if plan is not None else ():
        if row.quantity == "checkpoint_seconds" and isinstance(row.value, (int, float)):
            return float(row.value)
    saves = plan is not None and "checkpoint_interval" in plan.inputs
    return save_policy.ASSUMED_COST_SECONDS if saves else None

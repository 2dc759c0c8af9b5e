"""What an hour of a step costs, and the whole of its training, dedicated and low priority."""

from __future__ import annotations

from msgspec import Struct

from worldsize.azureml.model import Step
from worldsize.facts.prices import Price, PriceList
from worldsize.planning import cost
from worldsize.planning.cost import Cost, Evictions
from worldsize.planning.estimates.model import Case
from worldsize.planning.model import StepPlan


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


def find_checkpoint_seconds(plan: StepPlan, step: Step) -> float | None:
    """Seconds that one checkpoint takes: as planned, else assumed; None for a step that may save none.

    A component that asks for the interval between checkpoints, or has an output of that name, saves them.
    """
    from wstrain.checkpoint import save_policy  # few commands ask for it

    for row in plan.derivations:
        if row.quantity == "checkpoint_seconds" and isinstance(row.value, (int, float)):
            return float(row.value)
    inputs = step.component.inputs if step.component is not None else {}
    saves = "checkpoint_interval" in inputs or "checkpoints" in step.outputs
    return save_policy.ASSUMED_COST_SECONDS if saves else None

"""What an hour of a step costs, and the whole of its training, dedicated and low priority."""

from __future__ import annotations

from msgspec import Struct

from worldsize.azureml.model import Step
from worldsize.facts.prices import Price, PriceList, Tier
from worldsize.planning import cost
from worldsize.planning.cost import Cost, Evictions
from worldsize.planning.estimates.model import Case
from worldsize.planning.model import StepPlan
from worldsize.planning.resilience import Saving
from worldsize.spec.model import Spec


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

    planned = _find_derived(plan, "checkpoint_seconds")
    if planned is not None:
        return planned
    component = step.component
    outputs = {*step.outputs, *(component.outputs if component is not None else ())}
    saves = "checkpoints" in outputs or (component is not None and "checkpoint_interval" in component.inputs)
    return save_policy.ASSUMED_COST_SECONDS if saves else None


def find_saving(plan: StepPlan, step: Step, tier: Tier) -> Saving | None:
    """How a step writes checkpoints against interruptions; None if nothing says that it does.

    ``resilience:`` says it, and what runs on low-priority instances and can save is taken to.
    """
    seconds, between = (
        find_checkpoint_seconds(plan, step),
        _find_derived(plan, "mean_time_between_preemptions"),
    )
    count = plan.topology.instance_count
    if between is None and tier == "low_priority":
        between = cost.mean_seconds_between_evictions(count)
    return None if seconds is None or between is None else Saving(seconds, between, count)


def read_tier(spec: Spec, name: str) -> Tier:
    """The tier of a step's compute profile."""
    profile = spec.profile_of(name)
    is_low = profile is not None and profile.tier is not None and profile.tier.value == "low_priority"
    return "low_priority" if is_low else "dedicated"


def _find_derived(plan: StepPlan, quantity: str) -> float | None:
    rows = (row.value for row in plan.derivations if row.quantity == quantity)
    value = next(rows, None)
    return float(value) if isinstance(value, (int, float)) else None

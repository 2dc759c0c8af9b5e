"""What the commands about time and cost answer."""

from __future__ import annotations

from msgspec import Struct

from worldsize.planning.estimates.model import Case, Estimate
from worldsize.resolving.step_costs import StepCost
from worldsize.resolving.step_estimates import StepEstimate


class Estimated(Struct, frozen=True):
    """What an estimate file asks, and the answer; None where a rate is unknown, as ``unknown`` says."""

    case: Case
    estimate: Estimate | None
    cost: StepCost
    region: str  # of the prices
    unknown: str | None


class StepForecast(Struct, frozen=True):
    """The time and the cost of one training step of a spec."""

    time: StepEstimate
    cost: StepCost | None  # None where the time is unknown
    region: str

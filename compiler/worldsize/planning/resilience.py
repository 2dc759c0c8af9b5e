"""Plans how often a step writes checkpoints, what interruptions cost, and how often it is restarted."""

from __future__ import annotations

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.base.wording import drop_fraction, plural, round_noise, show_number
from worldsize.planning.model import Notes, PlanValue, Topology
from worldsize.planning.options import Settings
from worldsize.spec.model import ComputeProfile, Resilience, Step
from wstrain.checkpoint import save_policy

# Azure states how often it takes spot machines of a size back in bands per hour, 0-5 % to above 20 %.
LOW_PRIORITY_SECONDS = 36_000  # of one instance: 10 % an hour
# 419 unplanned interruptions in 54 days on 16,384 GPUs (Llama 3, 2024, section 3.3.4).
DEDICATED_SECONDS = round(54 * 86_400 * 16_384 / 419)  # of one GPU


class Saving(Struct, frozen=True):
    """How a step on ``instances`` writes checkpoints: seconds of one, mean seconds between interruptions."""

    seconds: float
    between: float
    instances: int


def find_saving_share(saving: Saving, instances: int) -> float:
    """The share of time that checkpoints take at the best interval, on any number of instances.

    Any instance ends the step, so that the time between interruptions falls with their number.
    """
    interval = save_policy.best_interval(saving.seconds, saving.between * saving.instances / instances)
    return saving.seconds / (interval + saving.seconds)


def plan_resilience(
    step: Step, profile: ComputeProfile | None, topology: Topology, notes: Notes
) -> dict[str, PlanValue]:
    """The checkpoint and restart values that ``resilience:`` of a step gives to inputs of the same names."""
    wanted = step.resilience
    if wanted is None:
        return {}
    inputs: dict[str, PlanValue] = {}
    if wanted.mean_time_between_preemptions or wanted.checkpoint_seconds:
        inputs |= _interval(wanted, _between(step, profile, topology, notes), notes)
    if wanted.max_restarts is not None:
        inputs["max_restarts"] = wanted.max_restarts.value
        notes.derive("max_restarts", wanted.max_restarts.value, "", notes.given("resilience.max_restarts"))
    return inputs


def note_early_stopping(settings: Settings) -> None:
    """Say in the plan that a training may end before its epochs."""
    setting = settings.step.with_.get("early_stopping_patience")
    patience = literals.parse_number(setting.value) if setting is not None else None
    if settings.offers("early_stopping_patience") and patience is not None and patience >= 1:
        validations = plural(int(patience), "validation")
        formula = (
            f"stops after {validations} in a row without a better validation_{settings.read('best_metric')}"
        )
        notes = settings.notes
        notes.derive("early_stopping_patience", int(patience), formula, notes.given("with"))


def _interval(wanted: Resilience, between: float, notes: Notes) -> dict[str, PlanValue]:
    """The interval with the least expected loss, and that loss."""
    cost = save_policy.ASSUMED_COST_SECONDS
    if wanted.checkpoint_seconds is not None:
        cost = float(wanted.checkpoint_seconds.value)
        source = notes.given("resilience.checkpoint_seconds")
    else:
        source = "assumed until the run has measured it"
    notes.derive("checkpoint_seconds", drop_fraction(round_noise(cost)), "", source)
    seconds = drop_fraction(round(save_policy.best_interval(cost, between), 1))
    daly = "Daly 2006, equation 37"
    formula = f"√(2 × {show_number(cost)} s × {show_number(between)} s) and its corrections"
    notes.derive("checkpoint_interval_seconds", seconds, formula, daly)
    lost = save_policy.lost_fraction(seconds, cost, between)
    saving = cost / (seconds + cost)
    formula = f"{100 * saving:.2g} % to save + {100 * (lost - saving):.2g} % done again"
    notes.derive("expected_loss", float(f"{lost:.3g}"), formula, "Daly 2006, equation 20")
    return {
        "checkpoint_interval": "auto",
        "mean_time_between_preemptions": between,
        "checkpoint_interval_seconds": seconds,
    }


def _between(step: Step, profile: ComputeProfile | None, topology: Topology, notes: Notes) -> float:
    """Mean seconds between two interruptions of the whole step: any of its instances ends it."""
    pinned = step.resilience.mean_time_between_preemptions if step.resilience else None
    if pinned is not None:
        source, formula = notes.given("resilience.mean_time_between_preemptions"), ""
        between = drop_fraction(round_noise(pinned.value))
    elif profile is not None and profile.tier is not None and profile.tier.value == "low_priority":
        count = topology.instance_count
        between = round(LOW_PRIORITY_SECONDS / count)
        formula = f"{LOW_PRIORITY_SECONDS} s an instance / {plural(count, 'instance')}"
        source = "assumed of tier low_priority"
    else:
        count = topology.instance_count * max(1, round(topology.gpus_per_instance or 1))
        between = round(DEDICATED_SECONDS / count)
        formula = f"{DEDICATED_SECONDS} s a GPU / {plural(count, 'GPU')}"
        source = "Llama 3, 2024, for dedicated instances"
    notes.derive("mean_time_between_preemptions", between, formula, source)
    return between

"""What the plan can tell a step: the names and types of its quantities, and the arithmetic behind a value."""

from __future__ import annotations

from worldsize.planning.model import Derivation, StepPlan, Topology, Training
from worldsize.spec.suggest import closest

_OF_RESILIENCE = ("checkpoint_interval", "mean_time_between_preemptions", "checkpoint_interval_seconds")

# What every step has, whether or not it trains.
OF_TOPOLOGY = frozenset(
    {"world_size", "data_parallel_size", "tensor_parallel_size", "pipeline_parallel_size"}
)
# Inputs that are filled from the plan wherever a component declares them.
PLANNED = OF_TOPOLOGY | {
    "batch_size_per_device",
    "gradient_accumulation_steps",
    "global_batch_size",
    "learning_rate",
    "reference_learning_rate",
    "warmup_epochs",
    "warmup_steps",
    "total_steps",
    "steps_per_epoch",
    "epochs",
    "shards_per_rank",
    "shard_count",
    *_OF_RESILIENCE,
}
# Degrees of parallelism as inputs, and their names in a spec.
DEGREES = {
    "data_parallel_size": "data",
    "tensor_parallel_size": "tensor",
    "pipeline_parallel_size": "pipeline",
}
# What a step is told of the machine that it was planned for, so that it can refuse another one.
MACHINE = {"planned_gpus_per_instance": "gpus_per_instance", "planned_instance_type": "instance_type"}
NAMES = frozenset(
    {
        *Topology.__struct_fields__,
        *Training.__struct_fields__,
        "data_parallel_size",
        "warmup_ratio",
        *_OF_RESILIENCE,
    }
)
_FRACTIONS = frozenset(
    {
        "learning_rate",
        "reference_learning_rate",
        "warmup_epochs",
        "warmup_ratio",
        "epochs",
        "kappa",
        "gpus_per_instance",
        "mean_time_between_preemptions",
        "checkpoint_interval_seconds",
    }
)
_TEXTS = frozenset(
    {"launcher", "command_launcher", "instance_type", "optimizer", "rule", "strategy", "checkpoint_interval"}
)


def input_type(quantity: str) -> str:
    """The type of an input that carries a quantity."""
    if quantity in _TEXTS:
        return "string"
    return "number" if quantity in _FRACTIONS else "integer"


def suggest_quantity(name: str) -> str:
    """What to write instead of a quantity that no plan has."""
    near = closest(name, NAMES)
    return f"did you mean `{near}`?" if near else "`worldsize plan` lists the quantities of each step"


def explain_pin(name: str) -> str:
    """How to pin a planned input in the spec, so that the rest of the plan follows it."""
    if name in DEGREES:
        return f"pin it as `{DEGREES[name]}` under `parallelism:`"
    if name in _OF_RESILIENCE:
        return "leave `resilience:` out"
    if name in MACHINE:
        return "choose another `instance_type`"
    return f"pin it as `{name}` under `scale:`"


def comment(plan: StepPlan, quantity: str) -> str | None:
    """Where a quantity comes from: ``0.05 × κ, κ = 256 / 32 = 8 (linear)``; None where nothing says it."""
    row = _row(plan, quantity)
    if row is None:
        return None
    if quantity == "learning_rate" and "κ" in row.formula and plan.training:
        return f"{row.formula} ({plan.training.rule})"
    if any(character.isdigit() for character in row.formula) or not row.source:
        return row.formula or None
    stated = row.source.startswith(("given", "default"))
    return row.source if stated or not row.formula else row.formula


def _row(plan: StepPlan, quantity: str) -> Derivation | None:
    return next((row for row in plan.derivations if row.quantity == quantity), None)

"""The quantities of a plan, one row each, and why one is missing: a new one is a row here, and its formula.

Rows of a plan, inputs that the plan fills, names in templates, completion and hover follow from the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from worldsize.spec.suggest import closest

if TYPE_CHECKING:
    from worldsize.planning.model import Plan, StepPlan  # which shows itself by these rows

Type = Literal["integer", "number", "string"]  # of an input that carries it
Group = Literal["topology", "parallelism", "training", "resilience", "machine"]


class Quantity(NamedTuple):
    """One number or word that is derived for a step."""

    name: str
    type: Type
    group: Group
    is_input: bool = False  # an input of this name is filled wherever a component declares it
    key: str = ""  # its name in a spec, or in the topology, where that is another
    label: str = ""  # how people say it, where that is not the name in words
    unit: str = ""  # where the label does not name it


QUANTITIES = (
    Quantity("launcher", "string", "topology"),
    Quantity("command_launcher", "string", "topology"),
    Quantity("instance_type", "string", "topology"),
    Quantity("instance_count", "integer", "topology"),
    Quantity("gpus_per_instance", "number", "topology", label="GPUs per instance"),
    Quantity("process_count_per_instance", "integer", "topology"),
    Quantity("worker_count", "integer", "topology"),
    Quantity("parameter_server_count", "integer", "topology"),
    Quantity("local_world_size", "integer", "topology"),
    Quantity("world_size", "integer", "topology", is_input=True),
    Quantity("strategy", "string", "topology"),
    Quantity("data_parallel_size", "integer", "parallelism", is_input=True, key="data"),
    Quantity("tensor_parallel_size", "integer", "parallelism", is_input=True, key="tensor"),
    Quantity("pipeline_parallel_size", "integer", "parallelism", is_input=True, key="pipeline"),
    Quantity("optimizer", "string", "training"),
    Quantity("batch_size_per_device", "integer", "training", is_input=True),
    Quantity("gradient_accumulation_steps", "integer", "training", is_input=True),
    Quantity("global_batch_size", "integer", "training", is_input=True),
    Quantity("reference_batch_size", "integer", "training"),
    Quantity("kappa", "number", "training", label="κ"),
    Quantity("rule", "string", "training"),
    Quantity("reference_learning_rate", "number", "training", is_input=True),
    Quantity("learning_rate", "number", "training", is_input=True),
    Quantity("epochs", "number", "training", is_input=True),
    Quantity("warmup_epochs", "number", "training", is_input=True, label="warm-up epochs"),
    Quantity("warmup_ratio", "number", "training"),
    Quantity("warmup_steps", "integer", "training", is_input=True, label="warm-up steps"),
    Quantity("rows", "integer", "training"),
    Quantity("steps_per_epoch", "integer", "training", is_input=True),
    Quantity("total_steps", "integer", "training", is_input=True),
    Quantity("shard_count", "integer", "training", is_input=True),
    Quantity("shards_per_rank", "integer", "training", is_input=True),
    Quantity("checkpoint_interval", "string", "resilience", is_input=True),
    Quantity("mean_time_between_preemptions", "number", "resilience", is_input=True, unit="s"),
    Quantity("checkpoint_interval_seconds", "number", "resilience", is_input=True),
    # The machine that a step was planned for, so that it can refuse another one.
    Quantity("planned_gpus_per_instance", "number", "machine", key="gpus_per_instance"),
    Quantity("planned_instance_type", "string", "machine", key="instance_type"),
)
_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
_LABELS = {"shm_size": "shared memory"}  # rows of a plan that no template may name

PLANNED = frozenset(quantity.name for quantity in QUANTITIES if quantity.is_input)
NAMES = frozenset(quantity.name for quantity in QUANTITIES if quantity.group != "machine")
MACHINE = {quantity.name: quantity.key for quantity in QUANTITIES if quantity.group == "machine"}
# Degrees of parallelism as inputs, and their names in a spec.
DEGREES = {quantity.name: quantity.key for quantity in QUANTITIES if quantity.group == "parallelism"}
# Inputs that every step has, whether or not it trains.
OF_TOPOLOGY = frozenset(
    quantity.name
    for quantity in QUANTITIES
    if quantity.is_input and quantity.group in ("topology", "parallelism")
)


def input_type(name: str) -> Type:
    """The type of an input that carries a quantity."""
    return _BY_NAME[name].type if name in _BY_NAME else "integer"


def label_quantity(name: str) -> str:
    """The name of a quantity as people say it."""
    label = _BY_NAME[name].label if name in _BY_NAME else _LABELS.get(name)
    return label or name.replace("_", " ")


def find_unit(name: str) -> str:
    """The unit of a quantity, where its label does not name it."""
    return _BY_NAME[name].unit if name in _BY_NAME else ""


def suggest_quantity(name: str) -> str:
    """What to write instead of a quantity that no plan has."""
    near = closest(name, NAMES)
    return f"did you mean `{near}`?" if near else "`worldsize plan` lists the quantities of each step"


def explain_pin(name: str) -> str:
    """How to pin a planned input in the spec, so that the rest of the plan follows it."""
    quantity = _BY_NAME[name]
    if quantity.group == "resilience":
        return "leave `resilience:` out"
    if quantity.group == "machine":
        return "choose another `instance_type`"
    block = "parallelism" if quantity.group == "parallelism" else "scale"
    return f"pin it as `{quantity.key or name}` under `{block}:`"


def comment(plan: StepPlan, quantity: str) -> str | None:
    """Where a quantity comes from: ``0.05 × κ, κ = 256 / 32 = 8 (linear)``; None if that is unknown."""
    row = plan.find_row(quantity)
    if row is None:
        return None
    if quantity == "learning_rate" and "κ" in row.formula and plan.training:
        return f"{row.formula} ({plan.training.rule})"
    if any(character.isdigit() for character in row.formula) or not row.source:
        return row.formula or None
    stated = row.source.startswith(("given", "default"))
    return row.source if stated or not row.formula else row.formula


_NEED_ROWS = ("rows", "steps_per_epoch", "total_steps", "warmup_steps")
_NEED_EPOCHS = ("epochs", "total_steps", "warmup_ratio")


def explain_missing(plan: Plan, step: str, quantity: str) -> tuple[str, str]:
    """Message and help for ``${{plan.<quantity>}}`` in a step whose plan does not have it.

    A step that does not train takes the quantities of the only training step.
    """
    training = [planned for planned in plan.steps.values() if planned.training is not None]
    planned = plan.steps.get(step)
    if planned not in training:
        planned = training[0] if len(training) == 1 else None
    unknown = None if planned is None else _explain_unknown(planned, quantity)
    if unknown is not None:
        return unknown
    message = f"the plan of step `{step}` has no `{quantity}`"
    if quantity in ("worker_count", "parameter_server_count"):
        return message, "only a step with `distribution: {type: tensorflow}` has it"
    if quantity == "strategy":
        return message, "only a step whose component offers strategies and whose degrees determine one has it"
    return message, "add `scale:` to the step; a step without it gets the values of the only training step"


def _explain_unknown(step: StepPlan, quantity: str) -> tuple[str, str] | None:
    """A quantity of a training that is counted only when the training runs."""
    training = step.training
    assert training is not None
    if quantity in _NEED_ROWS and training.rows is None:
        message = f"`{quantity}` of step `{step.step}` is unknown before the run, as its training rows are"
        return message, f"write `rows:` under `scale:` of step `{step.step}`"
    if quantity in _NEED_EPOCHS and training.epochs is None:
        message = f"`{quantity}` of step `{step.step}` is unknown, as its epochs are"
        return message, f"write `epochs:` under `scale:` of step `{step.step}`"
    return None

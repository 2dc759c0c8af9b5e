"""Values that come from the plan: inputs of planned names, and ``${{plan.…}}`` inside texts."""

from __future__ import annotations

import math
from typing import Any

from worldsize.azureml import binding, literals
from worldsize.azureml.model import Binding, Field, Literal
from worldsize.base.suggest import did_you_mean
from worldsize.emit.comments import comment
from worldsize.emit.work import PLANNED, Work, part_span
from worldsize.planning import missing
from worldsize.planning.model import PlanValue, StepPlan, Topology, Training
from worldsize.spec.model import Located

# Degrees of parallelism as inputs, and their names in a spec.
DEGREES = {
    "data_parallel_size": "data",
    "tensor_parallel_size": "tensor",
    "pipeline_parallel_size": "pipeline",
}
# What a step is told of the machine that it was planned for, so that it can refuse another one.
MACHINE = {"planned_gpus_per_instance": "gpus_per_instance", "planned_instance_type": "instance_type"}
_OF_RESILIENCE = ("checkpoint_interval", "mean_time_between_preemptions", "checkpoint_interval_seconds")


def value_of(work: Work, step: str, quantity: str) -> tuple[PlanValue, str | None] | None:
    """A planned quantity as a step sees it, and the arithmetic behind it for a comment.

    A step without a plan of its own for the quantity sees that of the only training step.
    """
    if work.plan is None:
        return None
    own = work.plan.steps.get(step)
    if own is not None and quantity in (own.inputs or {}):
        return _from(own, quantity)
    training = [
        plan for plan in work.plan.steps.values() if plan.training and quantity in (plan.inputs or {})
    ]
    return _from(training[0], quantity) if len(training) == 1 else None


def is_known(quantity: str) -> bool:
    """Whether there is a planned quantity of this name."""
    return quantity in names()


def fill(work: Work, step: str, located: Located[Any]) -> tuple[Any, str | None, bool]:
    """A value with its ``${{plan.…}}`` filled in.

    Returns:
        The value (typed where the whole text is one expression), a comment, and whether anything
        was filled in. Where the plan is unknown the text stays; nothing is emitted then.
    """
    text = located.value
    if not isinstance(text, str) or "plan" not in text:
        return text, None, False
    wanted = [found for found in binding.find(text) if found.scope == "plan"]
    whole = binding.whole(text)
    comments = []
    for found in reversed(wanted):
        value = _checked(work, step, located, found)
        if value is None:
            continue
        if whole is not None:
            return value[0], value[1], True
        text = text[: found.start] + literals.render(value[0]) + text[found.end :]
        comments.append(f"{found.port} = {value[1]}" if value[1] else str(found.port))
    return text, "; ".join(reversed(comments)) or None, bool(wanted)


def fill_inputs(work: Work, step: str) -> None:
    """Give a step every planned input that its component declares and ``with:`` leaves open."""
    arguments = work.arguments[step]
    own = (work.plan.steps[step].inputs or {}) if work.plan and step in work.plan.steps else {}
    for name in work.ports(step):
        if name not in PLANNED and name != "strategy":
            continue
        if name in own:
            _fill_input(work, step, name)
        elif name == "shard_count" and name not in arguments:
            _fill_shard_count(work, step)
    for name, quantity in MACHINE.items():
        port = work.ports(step).get(name)
        # A step that was planned for CPUs need not hear of it.
        if port is not None and quantity in own and (own.get("gpus_per_instance") or not port.optional):
            _fill_input(work, step, name, quantity)


def _fill_input(work: Work, step: str, name: str, quantity: str | None = None) -> None:
    quantity = quantity or name
    found = value_of(work, step, quantity)
    assert found is not None
    planned, why = found
    given = work.arguments[step].get(name)
    if given is None:
        if name in DEGREES and _is_default(work, step, name, planned):
            return  # a step without model parallelism need not speak of it
        work.arguments[step][name] = Field(Literal(planned), comment=why)
        work.templates.setdefault(step, {})[name] = f"${{{{plan.{quantity}}}}}"
    elif isinstance(given.value, Literal) and given.span and not _agree(given.value.value, planned):
        message = f"`{name}` is {given.value.value} here but {literals.render(planned)} by the plan"
        help_ = f"remove it, or {_pin(name)} so that the rest follows"
        work.report("planned-input-overridden", given.span, message, help_)


def _is_default(work: Work, step: str, name: str, planned: PlanValue) -> bool:
    default = work.ports(step)[name].default
    return default is not None and _agree(default.value, planned)


def _pin(name: str) -> str:
    if name in DEGREES:
        return f"pin it as `{DEGREES[name]}` under `parallelism:`"
    if name in _OF_RESILIENCE:
        return "leave `resilience:` out"
    if name in MACHINE:
        return "choose another `instance_type`"
    return f"pin it as `{name}` under `scale:`"


def _fill_shard_count(work: Work, step: str) -> None:
    """As many shards as every training step that reads this step's shards can share out evenly."""
    counts: list[int] = []
    comments: list[str] = []
    for reader, arguments in work.arguments.items():
        shards = arguments.get("shards")
        if not shards or not isinstance(shards.value, Binding) or shards.value.expression.step != step:
            continue
        plan = work.plan.steps.get(reader) if work.plan else None
        if plan is not None and "shard_count" in (plan.inputs or {}):
            value, why = _from(plan, "shard_count")
            counts.append(int(value))
            comments.append(f"for step {reader}" + (f": {why}" if why else ""))
    if counts:
        why = "; ".join(comments)
        work.arguments[step]["shard_count"] = Field(Literal(math.lcm(*counts)), comment=why)


def _from(plan: StepPlan, quantity: str) -> tuple[PlanValue, str | None]:
    assert plan.inputs is not None
    return plan.inputs[quantity], comment(plan, quantity)


def _checked(
    work: Work, step: str, located: Located[Any], found: binding.Expression
) -> tuple[PlanValue, str | None] | None:
    name = found.port or ""
    span = part_span(located, *found.part_range(len(found.parts) - 1))
    if not is_known(name):
        message = f"the plan has no quantity `{name}`"
        work.report("plan-unknown-quantity", span, message, did_you_mean(name, names()))
        return None
    value = value_of(work, step, name)
    if value is None and work.plan is not None:
        work.report("plan-unknown-quantity", span, *missing.explain(work.plan, step, name))
    return value


def names() -> frozenset[str]:
    """Every quantity that a plan may have."""
    recorded = (*Topology.__struct_fields__, *Training.__struct_fields__)
    return frozenset({*recorded, "data_parallel_size", *_OF_RESILIENCE})


def _agree(given: Any, planned: PlanValue) -> bool:
    left, right = literals.number(given), literals.number(planned)
    if left is None or right is None:
        return literals.render(given) == literals.render(planned)
    return math.isclose(left, right, rel_tol=1e-12)

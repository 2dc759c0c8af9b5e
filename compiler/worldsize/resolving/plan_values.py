"""Values that come from the plan: inputs of planned names, and ``${{plan.…}}`` inside texts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from worldsize.azureml import binding, literals
from worldsize.azureml.binding import find_expressions
from worldsize.azureml.model import Binding, Field, Literal
from worldsize.base.span import Span
from worldsize.planning import quantities
from worldsize.planning.model import PlanValue, StepPlan, Training
from worldsize.planning.quantities import DEGREES, MACHINE, NAMES, PLANNED, comment
from worldsize.resolving.state import ResolveState
from worldsize.spec.model import Located
from worldsize.spec.pipeline_inputs import is_pipeline_input


class PlannedValue(NamedTuple):
    """A planned quantity as a step sees it."""

    value: PlanValue
    comment: str | None  # the arithmetic behind it
    sources: tuple[Span, ...]  # the places of the spec that it comes from


class Filled(NamedTuple):
    """A value with its ``${{plan.…}}`` filled in, typed where the whole text is one expression."""

    value: Any
    comment: str | None = None
    sources: tuple[Span, ...] = ()
    follows: bool = False  # whether it names the plan


def planned_value(state: ResolveState, step: str, quantity: str) -> PlannedValue | None:
    """A planned quantity for a step.

    A step without a plan of its own for the quantity sees that of the only training step.
    """
    plan = state.step_plan(step)
    if plan is None or quantity not in plan.inputs:
        training = state.trainings(quantity)
        plan = training[0] if len(training) == 1 else None
    return _from(state, plan, quantity) if plan is not None else None


def fill_text(state: ResolveState, step: str, located: Located[Any]) -> Filled:
    """Fill the ``${{plan.…}}`` of a value. Where the plan is unknown the text stays: nothing is emitted."""
    text = located.value
    expressions = plan_expressions(text)
    whole = binding.parse_expression(text) if expressions else None
    comments: list[str] = []
    sources: list[Span] = []
    for expression in reversed(expressions):
        span = located.subspan(*expression.part_range(len(expression.parts) - 1))
        planned = find_or_report(state, step, expression.port or "", span)
        if planned is None:
            continue
        if whole is not None:
            return Filled(*planned, follows=True)
        text = text[: expression.start] + literals.render_literal(planned.value) + text[expression.end :]
        comments.insert(
            0, f"{expression.port} = {planned.comment}" if planned.comment else str(expression.port)
        )
        sources += planned.sources
    return Filled(text, "; ".join(comments) or None, tuple(dict.fromkeys(sources)), bool(expressions))


def plan_expressions(text: object) -> list[binding.Expression]:
    """The ``${{plan.…}}`` of a text, in order."""
    if not isinstance(text, str) or "plan" not in text:
        return []
    return [expression for expression in binding.find_expressions(text) if expression.scope == "plan"]


def fill_inputs(state: ResolveState, step: str) -> None:
    """Give a step every planned input that its component declares and ``with:`` leaves open."""
    arguments, ports, plan = state.arguments[step], state.ports(step), state.step_plan(step)
    planned = plan.inputs if plan is not None else {}
    searched = state.searched(step)
    for name in ports:
        if (name not in PLANNED and name != "strategy") or name in searched:
            continue
        if name in planned:
            _fill_input(state, step, name, name)
        elif name == "shard_count" and name not in arguments:
            _fill_shard_count(state, step)
    for name, quantity in MACHINE.items():
        port = ports.get(name)
        # A step that was planned for CPUs need not hear of it.
        if (
            port is not None
            and quantity in planned
            and (planned.get("gpus_per_instance") or not port.optional)
        ):
            _fill_input(state, step, name, quantity)


def _fill_input(state: ResolveState, step: str, name: str, quantity: str) -> None:
    planned = planned_value(state, step, quantity)
    assert planned is not None
    argument = state.arguments[step].get(name)
    if argument is None:
        if name in DEGREES and _is_default(state, step, name, planned.value):
            return  # a step without model parallelism need not speak of it
        set_planned(state, step, name, quantity, planned)
        return
    pinned = argument.value.value if isinstance(argument.value, Literal) else None
    if isinstance(argument.value, Binding) and is_pipeline_input(argument.value.expression):
        pinned = state.spec.steps[step].with_[name].value if name in state.spec.steps[step].with_ else None
        pinned = None if isinstance(pinned, dict) or find_expressions(str(pinned)) else pinned
    if pinned is not None and argument.span and not _agree(pinned, planned.value):
        message = f"`{name}` is {pinned} here but {literals.render_literal(planned.value)} by the plan"
        help_ = f"remove it, or {quantities.explain_pin(name)} so that the rest follows"
        state.report("planned-input-overridden", argument.span, message, help_)


def set_planned(state: ResolveState, step: str, name: str, quantity: str, planned: PlannedValue) -> None:
    """Give a step's input the value of a planned quantity, and remember that it follows the plan."""
    value, why, sources = planned
    state.arguments[step][name] = Field(Literal(value), comment=why, sources=sources)
    state.templates.setdefault(step, {})[name] = f"${{{{plan.{quantity}}}}}"


def _is_default(state: ResolveState, step: str, name: str, planned: PlanValue) -> bool:
    default = state.ports(step)[name].default
    return default is not None and _agree(default.value, planned)


def _fill_shard_count(state: ResolveState, step: str) -> None:
    """As many shards as every training step that reads this step's shards can share out evenly."""
    counts: list[int] = []
    comments: list[str] = []
    sources: list[Span] = []
    for reader in state.shard_readers(step):
        plan = state.step_plan(reader)
        if plan is not None and "shard_count" in plan.inputs:
            value, why, places = _from(state, plan, "shard_count")
            counts.append(int(value))
            comments.append(f"for step {reader}" + (f": {why}" if why else ""))
            sources += places
    if counts:
        state.arguments[step]["shard_count"] = Field(
            Literal(math.lcm(*counts)), comment="; ".join(comments), sources=tuple(sources)
        )


def _from(state: ResolveState, plan: StepPlan, quantity: str) -> PlannedValue:
    return PlannedValue(
        plan.inputs[quantity], comment(plan, quantity), source_spans(state, plan.step, quantity)
    )


def source_spans(state: ResolveState, step: str, quantity: str) -> tuple[Span, ...]:
    """The places of the spec that a planned quantity comes from: where it is pinned, else what decides it."""
    spec_step, profile = state.spec.steps[step], state.spec.profile_of(step)
    scale, launch = spec_step.scale, spec_step.distribution
    pins = [
        getattr(scale, quantity, None),
        getattr(spec_step, quantity, None),
        getattr(launch, quantity, None),
        getattr(spec_step.parallelism, DEGREES.get(quantity, ""), None),
        getattr(spec_step.resilience, quantity, None),
        profile.instance_type if profile is not None and quantity == "instance_type" else None,
    ]
    pinned = next((pin for pin in pins if isinstance(pin, Located)), None)
    if pinned is not None:
        return (pinned.span,)
    counts = (
        profile.instance_type if profile is not None else None,
        spec_step.instance_count,
        *(
            count
            for part in (spec_step, launch)
            if part
            for count in (part.process_count_per_instance, part.worker_count)
        ),
    )
    decided = [count.span for count in counts if count is not None]
    trains = scale is not None and quantity in Training.__struct_fields__
    return (scale.span, *decided) if scale is not None and trains else tuple(decided)


def find_or_report(state: ResolveState, step: str, name: str, span: Span) -> PlannedValue | None:
    """A planned quantity for a step; one that no plan has, or that this plan lacks, is reported."""
    if name not in NAMES:
        message = f"the plan has no quantity `{name}`"
        state.report("plan-unknown-quantity", span, message, quantities.suggest_quantity(name))
        return None
    planned = planned_value(state, step, name)
    if planned is None and state.plan is not None:
        state.report("plan-unknown-quantity", span, *quantities.explain_missing(state.plan, step, name))
    return planned


def _agree(value: Any, planned: PlanValue) -> bool:
    left, right = literals.parse_number(value), literals.parse_number(planned)
    if left is None or right is None:
        return literals.render_literal(value) == literals.render_literal(planned)
    return math.isclose(left, right, rel_tol=1e-12)

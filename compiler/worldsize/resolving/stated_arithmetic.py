"""Reports ``arithmetic:`` that a built-in component contradicts: its own inputs say how it computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from worldsize.base.problem import Problem, Related
from worldsize.planning.model import StepPlan

if TYPE_CHECKING:
    from worldsize.azureml.model import Port
    from worldsize.azureml.model import Step as GraphStep
    from worldsize.resolving.planned import Planned

SLUG = "arithmetic-contradicts-step"
_WORDS = {True: "blocks", False: "none"}  # of the input `activation_checkpointing`


def check_arithmetic(planned: Planned) -> Iterator[Problem]:
    """Report each key of `arithmetic:` whose value is not what the step computes with."""
    for name, plan in (planned.plan.steps if planned.plan is not None else {}).items():
        scale, step = planned.spec.steps[name].scale, planned.job.steps[name]
        if scale is None or not scale.arithmetic or plan.training is None:
            continue
        for key, used in _read_used(step, plan, planned).items():
            stated = scale.arithmetic.get(key)
            if stated is None or stated.value == used:
                continue
            message = (
                f"`{key}` is {_show(stated.value)} under `arithmetic`, but {_show(used)} in step `{name}`"
            )
            argument = step.inputs.get(key)
            span = argument.span if argument is not None else None
            related = (Related(span, "what decides it"),) if span is not None else ()
            yield Problem(SLUG, stated.span, message, _advise(step, key, stated.value), related)


def _read_used(step: GraphStep, plan: StepPlan, planned: Planned) -> dict[str, Any]:
    """What a built-in component computes with, by key of `arithmetic:`; nothing of other components."""
    from worldsize.planning.estimates.built_in import describe_setup  # few specs state it
    from worldsize.planning.memory.step_memory import read_setup

    setup = read_setup(step, plan, planned.vm_sizes)
    if setup is None:
        return {}
    training = describe_setup(setup)
    used = {
        "strategy": training.strategy,
        "zero_stage": training.zero_stage,
        "activation_checkpointing": training.recomputation != "none",
    }
    # Which precision `auto` is depends on the GPU.
    return used | ({"precision": training.precision} if plan.topology.instance_type is not None else {})


def _advise(step: GraphStep, key: str, value: Any) -> str:
    """What to write: the step's own input where it takes the value."""
    port: Port | None = step.component.inputs.get(key) if step.component is not None else None
    word = _WORDS.get(value, value) if isinstance(value, bool) else value
    if port is None or (port.enum is not None and word not in port.enum.value):
        return f"remove it: `{step.reference.value if step.reference else step.name}` does not take it"
    return f"write `{key}: {word}` under `with:`, or remove it here"


def _show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

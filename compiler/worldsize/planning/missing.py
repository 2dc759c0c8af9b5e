"""Explains why a plan does not have a requested quantity, and what to write to get it."""

from __future__ import annotations

from worldsize.planning.model import Plan, StepPlan

_NEED_ROWS = ("rows", "steps_per_epoch", "total_steps", "warmup_steps")
_NEED_EPOCHS = ("epochs", "total_steps", "warmup_ratio")
_OF_DEGREES = ("strategy",)
_OF_LAUNCHER = ("worker_count", "parameter_server_count")


def explain_missing(plan: Plan, step: str, quantity: str) -> tuple[str, str]:
    """Message and help for ``${{plan.<quantity>}}`` in a step whose plan does not have it.

    A step that does not train takes the quantities of the only training step.
    """
    training = [planned for planned in plan.steps.values() if planned.training is not None]
    own = plan.steps.get(step)
    seen = (
        own if own is not None and own.training is not None else training[0] if len(training) == 1 else None
    )
    unknown = None if seen is None else _unknown(seen, quantity)
    if unknown is not None:
        return unknown
    message = f"the plan of step `{step}` has no `{quantity}`"
    if quantity in _OF_LAUNCHER:
        return message, "only a step with `distribution: {type: tensorflow}` has it"
    if quantity in _OF_DEGREES:
        return message, "only a step whose component offers strategies and whose degrees determine one has it"
    return message, "add `scale:` to the step; a step without it gets the values of the only training step"


def _unknown(step: StepPlan, quantity: str) -> tuple[str, str] | None:
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

"""Whether the planned batch size and learning rate reach a component whose inputs are not known here."""

from __future__ import annotations

import re

from worldsize.base import resources
from worldsize.base.wording import join_words, shorten
from worldsize.resolving.plan_values import plan_expressions
from worldsize.resolving.state import ResolveState

# What the step needs to hear of each: names of planned quantities, or of inputs that somebody fills by hand.
_NEEDED = {
    "batch_size_per_device": re.compile(r"batch", re.IGNORECASE),
    "learning_rate": re.compile(r"\blr\b|_lr\b|learning_?rate", re.IGNORECASE),
}


def check_passed(state: ResolveState, step: str) -> None:
    """Report a planned step of a registered component to which ``with:`` does not pass batch size or rate.

    Where the file of the component is here, its inputs are filled by name, and a command may have numbers of
    its own.
    """
    spec_step, plan = state.spec.steps[step], state.step_plan(step)
    if spec_step.uses is None or spec_step.scale is None or plan is None or plan.training is None:
        return
    if state.components.get(step) is not None or state.unreadable(step):
        return
    given = {**spec_step.with_, **spec_step.environment_variables}
    names = [*given, *state.searched(step)]
    names += [str(each.port) for value in given.values() for each in plan_expressions(value.value)]
    missing = [name for name, pattern in _NEEDED.items() if not any(map(pattern.search, names))]
    if not missing:
        return
    uses = spec_step.uses.value
    numbers = join_words([f"`{name}`" for name in missing], "and")
    message = (
        f"the planned {numbers} {'do' if len(missing) > 1 else 'does'} not reach step `{step}`:"
        f" the inputs of `{shorten(uses, 60)}` are not known here"
    )
    lines = join_words([f"`{name}: ${{{{plan.{name}}}}}`" for name in missing], "and")
    help_ = f"write {lines} under `with:`"
    name = uses.removeprefix("azureml:").partition("@")[0].partition(":")[0]
    if name in resources.component_names():
        help_ += f", or write `uses: {name}`, whose inputs are known"
    state.report("plan-not-passed", spec_step.scale.span, message, help_)

"""Whether the planned batch size and learning rate reach a component whose inputs are not known here."""

from __future__ import annotations

import re

from worldsize import resources
from worldsize.base.wording import shorten
from worldsize.resolving.plan_values import plan_expressions
from worldsize.resolving.state import ResolveState

_BY_HAND = re.compile(r"batch|\blr\b|_lr\b|learning_?rate", re.IGNORECASE)


def check_passed(state: ResolveState, step: str) -> None:
    """Report a planned step of a registered component to which ``with:`` passes neither batch size nor rate.

    Where the file of the component is here, its inputs are filled by name, and a command may have numbers of
    its own.
    """
    spec_step, plan = state.spec.steps[step], state.step_plan(step)
    if spec_step.uses is None or spec_step.scale is None or plan is None or plan.training is None:
        return
    if state.components.get(step) is not None or state.unreadable(step):
        return
    given = {**spec_step.with_, **spec_step.environment_variables}
    if any(plan_expressions(each.value) for each in given.values()):
        return
    if any(map(_BY_HAND.search, [*given, *state.searched(step)])):
        return
    uses = spec_step.uses.value
    message = (
        f"the batch size and learning rate planned here do not reach step `{step}`:"
        f" the inputs of `{shorten(uses, 60)}` are not known here"
    )
    help_ = "pass them under `with:`, such as `learning_rate: ${{plan.learning_rate}}`"
    name = uses.removeprefix("azureml:").partition("@")[0].partition(":")[0]
    if name in resources.component_names():
        help_ += f", or write `uses: {name}`, whose inputs are known"
    state.report("plan-not-passed", spec_step.scale.span, message, help_)

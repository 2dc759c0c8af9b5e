"""The inputs and variables of a task that follow the plan, and what its command is told by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from worldsize.azureml import binding, literals
from worldsize.planning import Plan
from worldsize.planning.memory.workload import PREDICTION
from worldsize.planning.model import PlanValue
from worldsize.running.starting.sources import Source, Text
from worldsize.running.tasks import Task

VARIABLE = "$"  # begins the name of an environment variable among the templates


def told_quantities(task: Task, templates: Mapping[str, str], plan: Plan) -> frozenset[str]:
    """The quantities of the plan that reach the command of a task.

    An input counts where the command names it; a variable always does. One that was changed by hand since
    compiling tells the user's own number.
    """
    named = {found.port for found in binding.find(task.command) if found.scope == "inputs"}
    told: set[str] = set()
    for name, template in templates.items():
        if (name.startswith(VARIABLE) or name in named) and _follows(task, name, template, plan):
            told |= {found.port for found in binding.find(template) if found.scope == "plan" and found.port}
    return frozenset(told)


def refill_plan(task: Task, templates: Mapping[str, str], plan: Plan, fitted: Plan) -> Task:
    """Give the inputs and variables that follow the plan their value for this number of processes."""
    inputs: dict[str, Source | None] = dict(task.inputs)
    variables = dict(task.environment_variables)
    for name, template in templates.items():
        here = _fill(template, fitted, task.name)
        if here is None or not _follows(task, name, template, plan):
            continue
        if name.startswith(VARIABLE):
            variables[name.removeprefix(VARIABLE)] = literals.render(here)
        else:
            inputs[name] = Text(here)
    if PREDICTION in inputs and plan.steps[task.name].topology != fitted.steps[task.name].topology:
        inputs[PREDICTION] = None  # other processes take other memory than was foreseen
    return replace(task, inputs=inputs, environment_variables=variables)


def _follows(task: Task, name: str, template: str, plan: Plan) -> bool:
    """Whether a value is still the plan's: one that was changed by hand since compiling is the user's."""
    planned = _fill(template, plan, task.name)
    if planned is None:
        return False
    if name.startswith(VARIABLE):
        return task.environment_variables.get(name.removeprefix(VARIABLE)) == literals.render(planned)
    given = task.inputs.get(name)
    return isinstance(given, Text) and literals.render(given.value) == literals.render(planned)


def _fill(template: str, plan: Plan, step: str) -> PlanValue | None:
    whole = binding.whole(template)
    if whole is not None:
        return _quantity(plan, step, whole.port or "")
    text = template
    for found in reversed(binding.find(template)):
        value = _quantity(plan, step, found.port or "") if found.scope == "plan" else str(found)
        if value is None:
            return None
        text = text[: found.start] + literals.render(value) + text[found.end :]
    return text


def _quantity(plan: Plan, step: str, name: str) -> PlanValue | None:
    """A step's own quantity; without one that of the only training step, as in the compiler."""
    own = plan.steps.get(step)
    if own is not None and name in own.inputs:
        return own.inputs[name]
    having = [each.inputs[name] for each in plan.steps.values() if each.training and name in each.inputs]
    return having[0] if len(having) == 1 else None

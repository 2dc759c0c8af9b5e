"""One trial of a sweep as an ordinary task: the step's own, with its parameters filled in."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from worldsize.azureml import binding, literals
from worldsize.azureml.model import Component, Field
from worldsize.running.starting.sources import Text
from worldsize.running.sweep.plan import SweepPlan
from worldsize.running.sweep.sampler import Values
from worldsize.running.sweep.space import Value
from worldsize.running.tasks import Task
from worldsize.secrecy.names import is_secret


def name(step: str, number: int) -> str:
    """What a trial is called, counting from 0."""
    return f"{step}.trial-{number:03}"


def task(step: Task, plan: SweepPlan, number: int, values: Values) -> Task:
    """The task of a trial.

    A command names a parameter ``${{search_space.x}}`` in an inline trial and ``${{inputs.x}}`` where the
    trial is a component. Its processes also see ``AZUREML_SWEEP_<x>``, as in Azure ML.

    Args:
        step: The task of the sweep.
        plan: What the sweep tries.
        number: Of the trial, from 0.
        values: Its parameters.
    """
    fitting = {key: _fitting(step.component, key, value) for key, value in values.items()}
    seen = {f"AZUREML_SWEEP_{key}": literals.render(value) for key, value in fitting.items()}
    return replace(
        step,
        name=name(step.name, number),
        kind="command",
        component=structs.replace(
            step.component,
            command=Field(filled(step.command, fitting)),
            is_deterministic=Field(False),  # its metric is not kept with its outputs, so it is never reused
        ),
        inputs={**step.inputs, **{key: Text(value, is_secret(key)) for key, value in fitting.items()}},
        environment_variables={**step.environment_variables, **seen},
        timeout=plan.trial_timeout,
    )


def filled(command: str, values: Values) -> str:
    """A command with every ``${{search_space.x}}`` replaced; what names no parameter stays."""
    pieces: list[str] = []
    position = 0
    for found in binding.find(command):
        if found.scope == "search_space" and found.port in values:
            pieces += [command[position : found.start], literals.render(values[found.port])]
            position = found.end
    return "".join([*pieces, command[position:]])


def _fitting(component: Component, key: str, value: Value) -> Value:
    """A whole number for an input that takes one: ``quniform`` over fractions makes 16.0 otherwise."""
    port = component.inputs.get(key)
    if port is not None and port.type == "integer" and isinstance(value, float) and value == int(value):
        return int(value)
    return value

"""The component that the trials of a sweep run: it has what Azure ML reads from the trial, not from the step.

A sweep node of a pipeline has neither ``distribution`` nor variables (``SweepSchema`` of azure-ai-ml 1.35.2),
and a component has no variables: they are set by its command.
"""

from __future__ import annotations

import shlex
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import binding, literals
from worldsize.azureml.fields import read_field
from worldsize.azureml.model import Component, Field, Step
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence

_SPACE = "search_space"


def make_trial(step: Step, component: Component) -> Component:
    """The component of a sweep step, with the step's processes, instances and variables."""
    command = component.command
    if command is not None and isinstance(command.value, str):
        text = f"{_set_variables(step)}{_name_inputs(command.value)}"
        command = Field(text) if text != command.value else command
    own = component.resources.value if component.resources is not None else {}
    resources = {**(own if isinstance(own, dict) else {}), **(step.resources.value if step.resources else {})}
    return replace(
        component,
        command=command,
        distribution=step.distribution or component.distribution,
        resources=Field(resources) if resources else None,
        is_deterministic=component.is_deterministic,
        raw=_with_entries(component.raw, step, command, resources),
    )


def make_node(step: Step) -> Step:
    """The step without what only its trials have, and with the limits of the sweep, as it is written."""
    limits = read_field(step.raw, "limits") if isinstance(step.raw, Mapping) else None
    return replace(step, distribution=None, environment_variables=None, limits=limits)


def _name_inputs(command: str) -> str:
    """The command with ``${{inputs.x}}`` for ``${{search_space.x}}``: the trial's component declares it."""
    for expression in reversed(binding.find_expressions(command)):
        if expression.scope == _SPACE and expression.port:
            written = f"${{{{inputs.{expression.port}}}}}"
            command = f"{command[: expression.start]}{written}{command[expression.end :]}"
    return command


def _set_variables(step: Step) -> str:
    variables = step.environment_variables.value if step.environment_variables is not None else {}
    words = [f"{name}={shlex.quote(literals.render_literal(value))}" for name, value in variables.items()]
    return f"export {' '.join(words)} && " if words else ""


def _with_entries(
    raw: Node | None, step: Step, command: Field[Any] | None, resources: dict[str, Any]
) -> Node | None:
    """The component's file with the changed keys, in the order that it has."""
    if not isinstance(raw, Mapping):
        return raw
    changed: dict[str, Any] = {}
    if step.distribution is not None:
        changed["distribution"] = step.distribution.value
    if resources:
        changed["resources"] = resources
    if command is not None and command.node is None:
        changed["command"] = command.value
    entries = [(key, changed.pop(key.text, node)) for key, node in raw.entries]
    added = [(_scalar(raw, name), value) for name, value in changed.items()]
    at = next((place for place, (key, _) in enumerate(entries) if key.text == "command"), len(entries))
    placed = [*entries[:at], *added, *entries[at:]]
    return Mapping(
        raw.source,
        raw.start,
        raw.end,
        [(key, value if _is_node(value) else _to_node(raw, value)) for key, value in placed],
        raw.flow,
    )


def _is_node(value: Any) -> bool:
    return isinstance(value, Scalar | Sequence | Mapping)


def _to_node(at: Mapping, value: Any) -> Node:
    if isinstance(value, dict):
        entries = [(_scalar(at, name), _to_node(at, part)) for name, part in value.items()]
        return Mapping(at.source, at.start, at.end, entries)
    return _scalar(at, value)


def _scalar(at: Mapping, value: Any) -> Scalar:
    return Scalar(at.source, at.start, at.end, str(value), "", None, [], value)

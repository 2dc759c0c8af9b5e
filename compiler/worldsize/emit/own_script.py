"""A user's own command as a component: its ports are what the command names and ``with:`` gives.

``${{plan.learning_rate}}`` in the command becomes an input of that name, so that Studio shows the
planned value and a run with fewer processes can give another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import binding, literals
from worldsize.azureml.model import Component, Field, Port
from worldsize.azureml.references import classify, exists, is_file, local_path
from worldsize.emit.work import FRACTIONS, PLANNED, TEXTS
from worldsize.spec.model import Located, Step

OPEN = "open"  # the type of an input that nothing has been bound to yet


def component(step: Step, folder: Path) -> Component:
    """The component of a step with its own command.

    Args:
        step: The step.
        folder: The spec's folder, which local paths are relative to.

    Returns:
        The component; inputs that a binding will feed have the type :data:`OPEN` for now.
    """
    assert step.command is not None
    inputs = {
        name: Port(name, type_of(located.value, folder), located.key_span)
        for name, located in step.with_.items()
    }
    for name, optional in _named_in_command(step.command.value).items():
        port = Port(name, _unsaid(name, optional=optional), step.command.span, optional=optional)
        inputs.setdefault(name, port)
    outputs = {
        name: Port(name, _output_type(located.value), located.key_span)
        for name, located in step.outputs.items()
    }
    return Component(
        path=None,
        type="command",
        name=Field(step.name),
        version=None,
        inputs=inputs,
        outputs=outputs,
        command=_field(step.command),
        code=_field(step.code),
        environment=_field(step.environment),
        display_name=_field(step.display_name),
        description=_field(step.description),
    )


def plan_inputs(step: Step) -> dict[str, str]:
    """Quantities that the command takes from the plan, each with the input that carries it."""
    if step.command is None:
        return {}
    found = binding.find(step.command.value)
    wanted = [part.port for part in found if part.scope == "plan" and part.port]
    return {name: f"plan_{name}" if name in step.with_ else name for name in wanted}


def with_planned(made: Component, carried: Mapping[str, str]) -> Component:
    """The component with planned quantities as inputs, and a command that names these instead.

    Args:
        made: The component of a step with its own command.
        carried: By quantity the input that carries it.
    """
    assert made.command is not None
    command = made.command.value
    for found in reversed(binding.find(command)):
        if found.scope == "plan" and found.port and found.port in carried:
            command = f"{command[: found.start]}${{{{inputs.{carried[found.port]}}}}}{command[found.end :]}"
    ports = {name: Port(name, _planned_type(quantity)) for quantity, name in carried.items()}
    return replace(made, inputs={**made.inputs, **ports}, command=replace(made.command, value=command))


def type_of(value: Any, folder: Path) -> str:
    """The type of an input by the value that ``with:`` gives it; a path must exist to count as one."""
    if isinstance(value, dict):
        return str(value.get("type") or "uri_folder")
    if not isinstance(value, str):
        return literals.type_of(value)
    if (found := binding.whole(value)) is not None:
        return _planned_type(found.port or "") if found.scope == "plan" else OPEN
    if classify(value) == "asset":
        return "uri_folder"
    path = local_path(value, folder) if value.startswith(("./", "../", "/")) else None
    if path is None or not exists(path):
        return "string"
    return "uri_file" if is_file(path) else "uri_folder"


def _named_in_command(command: str) -> dict[str, bool]:
    """Inputs the command names; True for those that stand in optional sections only."""
    template = binding.parse(command)
    inside = {found.start for section in template.sections for found in section.expressions}
    named: dict[str, bool] = {}
    for found in template.expressions:
        if found.scope == "inputs" and found.port:
            named[found.port] = named.get(found.port, True) and found.start in inside
    return named


def _unsaid(name: str, *, optional: bool) -> str:
    """The type of an input that only the command names: planned, absent, or wired by its name."""
    if name in PLANNED:
        return _planned_type(name)
    return "string" if optional else OPEN


def _planned_type(quantity: str) -> str:
    if quantity in TEXTS:
        return "string"
    return "number" if quantity in FRACTIONS else "integer"


def _output_type(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("type") or "uri_folder")
    return value if isinstance(value, str) else "uri_folder"


def _field(located: Located[Any] | None) -> Field[Any] | None:
    return Field(located.value, located.span, located.key_span, located.node) if located else None

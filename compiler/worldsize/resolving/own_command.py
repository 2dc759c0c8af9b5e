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
from worldsize.azureml.model import SPEC, SWEPT_SPEC, Binding, Component, Data, Field, Port
from worldsize.azureml.references import classify, exists, is_file, local_path
from worldsize.azureml.sweep import searched_type
from worldsize.base import limits
from worldsize.planning.quantities import NAMES, PLANNED, input_type
from worldsize.resolving import plan_values
from worldsize.resolving.state import ResolveState
from worldsize.spec.model import Step

OPEN = "open"  # the type of an input that nothing has been bound to yet


def build_component(step: Step, folder: Path) -> Component:
    """The component of a step with its own command; inputs that a binding will feed are :data:`OPEN`."""
    assert step.command is not None
    inputs = {
        name: Port(name, type_of_value(located.value, folder), located.key_span)
        for name, located in step.with_.items()
    }
    for name, located in (step.sweep.search_space if step.sweep is not None else {}).items():
        inputs[name] = Port(name, searched_type(located.value), located.key_span)
    for name, optional in find_named_inputs(step.command.value).items():
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
        command=step.command,
        code=step.code,
        environment=step.environment,
        display_name=step.display_name,
        description=step.description,
        folder=folder,
        keys=SPEC if step.sweep is None else SWEPT_SPEC,
        inline=True,
    )


def carry_plan(state: ResolveState, step: str) -> None:
    """Turn the quantities that an own command takes from the plan into inputs of its component."""
    spec_step = state.spec.steps[step]
    component = state.components.get(step)
    if spec_step.command is None or component is None:
        return
    carried: dict[str, str] = {}  # by quantity the input that carries it
    for expression in plan_values.plan_expressions(spec_step.command.value):
        quantity = expression.port or ""
        name = f"plan_{quantity}" if quantity in spec_step.with_ else quantity
        span = spec_step.command.subspan(expression.start, expression.end)
        planned = plan_values.find_or_report(state, step, quantity, span)
        if quantity not in NAMES or quantity in carried:
            continue
        if planned is not None:
            plan_values.set_planned(state, step, name, quantity, planned)
        if planned is not None or state.plan is None:  # one that the plan lacks was reported above
            carried[quantity] = name
    if carried:
        state.components[step] = _with_planned(component, carried)


def _with_planned(component: Component, carried: Mapping[str, str]) -> Component:
    """The component with planned quantities as inputs, and a command that names these instead."""
    assert component.command is not None
    command = component.command.value
    for expression in reversed(plan_values.plan_expressions(command)):
        name = carried.get(expression.port or "")
        if name is not None:
            command = f"{command[: expression.start]}${{{{inputs.{name}}}}}{command[expression.end :]}"
    ports = {name: Port(name, input_type(quantity)) for quantity, name in carried.items()}
    inputs = {**component.inputs, **ports}
    return replace(component, inputs=inputs, command=replace(component.command, value=command))


def type_open_inputs(state: ResolveState) -> None:
    """Give the inputs of own commands the type of what feeds them."""
    for step, component in state.components.items():
        if component is None or not any(port.type == OPEN for port in component.inputs.values()):
            continue
        ports = {
            name: replace(port, type=_type_of_source(state, step, name)) if port.type == OPEN else port
            for name, port in component.inputs.items()
        }
        state.components[step] = replace(component, inputs=ports)


def _type_of_source(state: ResolveState, step: str, name: str) -> str:
    """The type at the end of a chain of bindings; a folder where the chain leads nowhere or in a circle."""
    seen: set[tuple[str, str]] = set()
    while (step, name) not in seen:
        limits.check_time()
        seen.add((step, name))
        argument = state.arguments.get(step, {}).get(name)
        value = argument.value if argument is not None else None
        if isinstance(value, Data):
            return value.type or "uri_folder"
        if not isinstance(value, Binding):
            return "uri_folder" if value is None else type_of_value(value.value, state.folder)
        expression = value.expression
        step, name = expression.step or "", expression.port or ""
        port = (state.ports(step) if expression.side == "inputs" else state.outputs(step) or {}).get(name)
        if port is None or port.type != OPEN or expression.side != "inputs":
            return port.type if port is not None else "uri_folder"
    return "uri_folder"


def type_of_value(value: Any, folder: Path) -> str:
    """The type of an input by the value that ``with:`` gives it; a path must exist to count as one."""
    if isinstance(value, dict):
        return str(value.get("type") or "uri_folder")
    if not isinstance(value, str):
        return literals.primitive_type(value)
    if (expression := binding.parse_expression(value)) is not None:
        return input_type(expression.port or "") if expression.scope == "plan" else OPEN
    if classify(value) == "asset":
        return "uri_folder"
    path = local_path(value, folder) if value.startswith(("./", "../", "/")) else None
    if path is None or not exists(path):
        return "string"
    return "uri_file" if is_file(path) else "uri_folder"


def find_named_inputs(command: str) -> dict[str, bool]:
    """Inputs the command names; True for those that stand in optional sections only."""
    template = binding.parse_template(command)
    inside = {expression.start for section in template.sections for expression in section.expressions}
    named: dict[str, bool] = {}
    for expression in template.expressions:
        if expression.scope == "inputs" and expression.port:
            named[expression.port] = named.get(expression.port, True) and expression.start in inside
    return named


def _unsaid(name: str, *, optional: bool) -> str:
    """The type of an input that only the command names: planned, absent, or wired by its name."""
    if name in PLANNED:
        return input_type(name)
    return "string" if optional else OPEN


def _output_type(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("type") or "uri_folder")
    return value if isinstance(value, str) else "uri_folder"

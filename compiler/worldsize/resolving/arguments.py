"""What ``with:`` gives a step: literals, data and bindings, each with its place. Rules judge them."""

from __future__ import annotations

from typing import Any

from worldsize.azureml import graph
from worldsize.azureml.model import Argument, Binding, Data, Field, Literal, Port
from worldsize.resolving import plan_values
from worldsize.resolving.own_command import OPEN
from worldsize.resolving.state import ResolveState
from worldsize.spec.model import Located


def read_arguments(state: ResolveState, step: str) -> dict[str, Field[Argument]]:
    """The arguments that ``with:`` of a step gives, also those that do not fit.

    A text that names the plan stays as it is: :func:`fill_arguments` fills it once there is a plan.
    """
    ports = state.ports(step)
    arguments: dict[str, Field[Argument]] = {}
    for name, located in state.spec.steps[step].with_.items():
        if plan_values.plan_expressions(located.value):
            state.templates.setdefault(step, {})[name] = located.value
            argument: Argument = Literal(located.value)
        else:
            assert located.node is not None
            argument = _to_data(graph.read_argument(located.node), located, ports.get(name))
        arguments[name] = Field(argument, located.span, located.key_span, located.node)
    return arguments


def fill_arguments(state: ResolveState, step: str) -> None:
    """Fill the arguments of a step that name the plan."""
    for name in state.templates.get(step, ()):
        located = state.spec.steps[step].with_[name]
        filled = plan_values.fill_text(state, step, located)
        argument: Argument = Literal(filled.value)
        if state.plan is not None:
            argument = _to_data(argument, located, state.ports(step).get(name))
        state.arguments[step][name] = Field(
            argument, located.span, located.key_span, located.node, filled.comment, filled.sources
        )


def _to_data(argument: Argument, located: Located[Any], port: Port | None) -> Argument:
    """Data that is given as a mere path, or without its type, with the type of its port."""
    if port is None or not port.is_data or port.type == OPEN or isinstance(argument, Binding):
        return argument
    if isinstance(argument, Data):
        return argument if argument.type else Data(port.type, argument.path, argument.mode)
    if not isinstance(argument.value, str):
        return argument
    return Data(port.type, Field(argument.value, located.span, located.key_span, located.node))

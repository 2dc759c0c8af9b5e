"""What ``with:`` gives a step: literals, data and bindings, each checked against the port it is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import binding, fields, literals
from worldsize.azureml import literals as port_values
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Component, Data, Field, Literal, Port
from worldsize.azureml.references import exists, local_path
from worldsize.azureml.snapshot import describe_missing
from worldsize.base.suggest import did_you_mean
from worldsize.resolving import components, plan_values
from worldsize.resolving.own_command import OPEN
from worldsize.resolving.state import ResolveState, part_span
from worldsize.spec.model import Located
from worldsize.yaml.nodes import Mapping


def read_arguments(state: ResolveState, step: str) -> dict[str, Field[Argument]]:
    """The arguments that ``with:`` of a step gives; a faulty one is reported and still counts as given.

    A text that names the plan stays as it is: :func:`fill_arguments` fills it once there is a plan.
    """
    component = state.components.get(step)
    arguments: dict[str, Field[Argument]] = {}
    for name, located in state.spec.steps[step].with_.items():
        port = component.inputs.get(name) if component else None
        if component is not None and port is None:
            message = f"`{_title(state, step)}` has no input `{name}`"
            state.report("input-unknown", located.key_span, message, _known_as(name, component))
            continue
        argument = _argument(state, step, name, located, port)
        arguments[name] = Field(argument, located.span, located.key_span, located.node)
    return arguments


def fill_arguments(state: ResolveState, step: str) -> None:
    """Fill the arguments of a step that name the plan, and check the values."""
    for name in state.templates.get(step, ()):
        located = state.spec.steps[step].with_[name]
        filled = plan_values.fill_text(state, step, located)
        port = state.ports(step).get(name)
        argument: Argument = Literal(filled.value)
        if state.plan is not None:
            argument = _value(state, name, located, filled.value, port)
        state.arguments[step][name] = Field(
            argument, located.span, located.key_span, located.node, filled.comment, filled.sources
        )


def _known_as(name: str, component: Component) -> str | None:
    """The input that was meant; where none is near, the built-in component that has it."""
    near = did_you_mean(name, component.inputs)
    if near is None or not near.startswith("did"):
        others = components.with_input(name)
        if others:
            return f"`{name}` is an input of {_either(others)}"
    return near


def _either(names: Sequence[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _argument(
    state: ResolveState, step: str, name: str, located: Located[Any], port: Port | None
) -> Argument:
    value = located.value
    if isinstance(value, dict):
        return _mapping(state, step, located, port)
    if isinstance(value, str):
        _check_braces(state, located)
    expression = binding.parse_expression(value)
    if expression is not None and expression.scope != "plan":
        _check_binding(state, step, located, expression, port)
        return Binding(expression)
    if plan_values.plan_expressions(value):
        state.templates.setdefault(step, {})[name] = value
        return Literal(value)
    if isinstance(value, str) and _has_other_expressions(state, located):
        return Literal(value)
    return _value(state, name, located, value, port)


def _value(state: ResolveState, name: str, located: Located[Any], value: Any, port: Port | None) -> Argument:
    """A plain value: data where the port is for data, else a literal that must fit it."""
    if port is not None and port.is_data and port.type != OPEN:
        return _data(state, located, value, port)
    if port is not None:
        _check_literal(state, name, located, value, port)
    return Literal(value)


def _mapping(state: ResolveState, step: str, located: Located[Any], port: Port | None) -> Argument:
    """``{type, path, mode}``."""
    value = located.value
    if port is not None and not port.is_data:
        message = f"`{port.name}` is a {port.type}, not data"
        state.report("input-type", located.key_span, message, f"write the value behind `{port.name}:`")
    path, mode = _member(located, "path"), _member(located, "mode")
    expression = binding.parse_expression(path.value)
    if expression is not None:
        _check_binding(state, step, located, expression, port)
        return Binding(expression, mode if mode.value else None)
    type_ = value.get("type") or (port.type if port and port.type != OPEN else None)
    if isinstance(path.value, str):
        _check_path(state, located, path.value)
    return Data(type_, path, mode if mode.value else None)


def _member(located: Located[Any], name: str) -> Field[Any]:
    """One entry of a mapping with its place."""
    field = fields.read_field(located.node, name) if isinstance(located.node, Mapping) else None
    return field or Field(located.value.get(name))


def _data(state: ResolveState, located: Located[Any], value: Any, port: Port) -> Argument:
    if not isinstance(value, str):
        message = f"`{port.name}` is {port.type} data, and `{literals.render_literal(value)}` is not a path"
        state.report("input-type", located.span, message, "write a path, `azureml:name:version` or a binding")
        return Literal(value)
    _check_path(state, located, value)
    return Data(port.type, Field(value, located.span, located.key_span, located.node))


def _check_path(state: ResolveState, located: Located[Any], path: str) -> None:
    local = local_path(path, state.folder)
    if local is not None and not exists(local):
        state.problems.append(describe_missing("the input", path, local, located.span).under("data-missing"))


def _check_literal(state: ResolveState, name: str, located: Located[Any], value: Any, port: Port) -> None:
    """Report a literal that the port's type, range or enumeration excludes."""
    span = located.key_span if value is None else located.span
    fault = port_values.check_value(name, value, port, span)
    if fault is None:
        return
    if fault.slug == "input-not-in-enum" and not (fault.help or "").startswith("did"):
        others = components.with_input(name, literals.render_literal(value))
        if others:
            help_ = f"{fault.help}, or `uses: {others[0]}`, which has `{literals.render_literal(value)}`"
            fault = replace(fault, help=help_)
    state.problems.append(fault)


def _check_binding(
    state: ResolveState, step: str, located: Located[Any], bound: Expression, port: Port | None
) -> None:
    """Report a binding that leads nowhere or feeds data to a literal."""
    if bound.scope != "parent.jobs" or bound.side is None or bound.port is None or bound.step is None:
        message = f"`{bound}` cannot be bound here"
        help_ = "write `${{parent.jobs.STEP.outputs.NAME}}` for another step's output or `${{plan.NAME}}`"
        state.report("binding-unknown-scope", located.span, message, help_)
        return
    if bound.step not in state.spec.steps:
        span = part_span(located, *bound.part_range(2))
        help_text = did_you_mean(bound.step, [known for known in state.spec.steps if known != step])
        state.report("binding-unknown-step", span, f"there is no step `{bound.step}`", help_text)
        return
    if bound.side == "inputs":
        known = state.ports(bound.step) if state.components.get(bound.step) else None
    else:
        known = state.outputs(bound.step)
    if known is None:
        return
    if bound.port not in known:
        span = part_span(located, *bound.part_range(4))
        message = f"step `{bound.step}` has no {bound.side[:-1]} `{bound.port}`"
        state.report("binding-unknown-output", span, message, did_you_mean(bound.port, known))
        return
    source = known[bound.port]
    if port is not None and source.is_data and not port.is_data:
        wanted = f"input `{port.name}` is {port_values.article(port.type)}"
        message = f"`{bound.step}.{bound.port}` is {source.type} data, but {wanted}"
        state.report("input-type", located.span, message, "bind an input of data, or write a value")


def _has_other_expressions(state: ResolveState, located: Located[Any]) -> bool:
    """Report expressions with text around them: nothing resolves those outside a command."""
    others = [part for part in binding.find_expressions(located.value) if part.scope != "plan"]
    if others:
        span = part_span(located, others[0].start, others[0].end)
        message = f"`{others[0]}` has text around it, and a binding must be the whole value"
        state.report("binding-in-text", span, message, "bind it alone and join the path inside the script")
    return bool(others)


def _check_braces(state: ResolveState, located: Located[Any]) -> None:
    text = located.value
    for start in binding.parse_template(text).unclosed:
        span = part_span(located, start, min(len(text), start + 3))
        help_ = "close it with `}}`, and leave no blanks inside the dotted name"
        state.report("binding-malformed", span, f"`{text[start : start + 40]}` is no expression", help_)
    match = port_values.SINGLE_BRACES.search(text)
    if match is not None:
        inner = match.group().lstrip("$").strip("{} ")
        span = part_span(located, match.start(), match.end())
        message = f"`{match.group()}` is plain text: an expression has two braces on each side"
        state.report("binding-malformed", span, message, f"write `${{{{{inner}}}}}`")


def _title(state: ResolveState, step: str) -> str:
    uses = state.spec.steps[step].uses
    return uses.value if uses else step

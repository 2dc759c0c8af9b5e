"""What ``with:`` gives a step: literals, data and bindings, each checked against the port it is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import binding, literals, port_values
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Component, Data, Field, Literal, Port
from worldsize.azureml.references import exists, local_path
from worldsize.azureml.snapshot import describe_missing
from worldsize.base.suggest import did_you_mean
from worldsize.emit import lookup, planned
from worldsize.emit.own_script import OPEN
from worldsize.emit.work import Work, part_span
from worldsize.spec.model import Located


def read(work: Work, step: str) -> dict[str, Field[Argument]]:
    """The arguments that ``with:`` of a step gives; a faulty one is reported and still counts as given."""
    component = work.components.get(step)
    arguments: dict[str, Field[Argument]] = {}
    for name, located in work.spec.steps[step].with_.items():
        port = component.inputs.get(name) if component else None
        if component is not None and port is None:
            message = f"`{_title(work, step)}` has no input `{name}`"
            work.report("input-unknown", located.key_span, message, _known_as(name, component))
            continue
        argument, comment = _argument(work, step, name, located, port)
        arguments[name] = Field(argument, located.span, located.key_span, located.node, comment)
    return arguments


def _known_as(name: str, component: Component) -> str | None:
    """The input that was meant; where none is near, the built-in component that has it."""
    near = did_you_mean(name, component.inputs)
    if near is None or not near.startswith("did"):
        others = lookup.with_input(name)
        if others:
            return f"`{name}` is an input of {_either(others)}"
    return near


def _either(names: Sequence[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _argument(
    work: Work, step: str, name: str, located: Located[Any], port: Port | None
) -> tuple[Argument, str | None]:
    value = located.value
    if isinstance(value, dict):
        return _mapping(work, step, located, port), None
    if isinstance(value, str):
        _check_braces(work, located)
    found = binding.whole(value)
    if found is not None and found.scope != "plan":
        _check_binding(work, step, located, found, port)
        return Binding(found), None
    filled, comment, has_plan = planned.fill(work, step, located)
    if has_plan:
        work.templates.setdefault(step, {})[name] = str(value)
        if work.plan is None:  # nothing to check against yet
            return Literal(filled), comment
    elif isinstance(value, str) and _other_expressions(work, located):
        return Literal(filled), comment
    if port is not None and port.is_data and port.type != OPEN:
        return _data(work, located, filled, port), comment
    if port is not None:
        check_literal(work, name, located, filled, port)
    return Literal(filled), comment


def _mapping(work: Work, step: str, located: Located[Any], port: Port | None) -> Argument:
    """``{type, path, mode}``."""
    value = located.value
    path, mode = value.get("path"), value.get("mode")
    if port is not None and not port.is_data:
        message = f"`{port.name}` is a {port.type}, not data"
        work.report("input-type", located.key_span, message, f"write the value behind `{port.name}:`")
    found = binding.whole(path)
    if found is not None:
        _check_binding(work, step, located, found, port)
        return Binding(found, Field(mode) if mode else None)
    type_ = value.get("type") or (port.type if port and port.type != OPEN else None)
    if isinstance(path, str):
        _check_path(work, located, path)
    return Data(type_, Field(path), Field(mode) if mode else None)


def _data(work: Work, located: Located[Any], value: Any, port: Port) -> Argument:
    if not isinstance(value, str):
        message = f"`{port.name}` is {port.type} data, and `{literals.render(value)}` is no path"
        work.report("input-type", located.span, message, "write a path, `azureml:name:version` or a binding")
        return Literal(value)
    _check_path(work, located, value)
    return Data(port.type, Field(value))


def _check_path(work: Work, located: Located[Any], path: str) -> None:
    local = local_path(path, work.folder)
    if local is not None and not exists(local):
        work.problems.append(describe_missing("the input", path, local, located.span).under("data-missing"))


def check_literal(work: Work, name: str, located: Located[Any], value: Any, port: Port) -> None:
    """Report a literal that the port's type, range or enumeration excludes."""
    span = located.key_span if value is None else located.span
    fault = port_values.check_value(name, value, port, span)
    if fault is None:
        return
    if fault.slug == "input-not-in-enum" and not (fault.help or "").startswith("did"):
        others = lookup.with_input(name, literals.render(value))
        if others:
            help_ = f"{fault.help}, or `uses: {others[0]}`, which has `{literals.render(value)}`"
            fault = replace(fault, help=help_)
    work.problems.append(fault)


def _check_binding(
    work: Work, step: str, located: Located[Any], found: Expression, port: Port | None
) -> None:
    """Report a binding that leads nowhere or feeds data to a literal."""
    if found.scope != "parent.jobs" or found.side is None or found.port is None or found.step is None:
        message = f"`{found}` cannot be bound here"
        help_ = "write `${{parent.jobs.STEP.outputs.NAME}}` for another step's output or `${{plan.NAME}}`"
        work.report("binding-unknown-scope", located.span, message, help_)
        return
    if found.step not in work.spec.steps:
        span = part_span(located, *found.part_range(2))
        help_text = did_you_mean(found.step, [known for known in work.spec.steps if known != step])
        work.report("binding-unknown-step", span, f"there is no step `{found.step}`", help_text)
        return
    if found.side == "inputs":
        known = work.ports(found.step) if work.components.get(found.step) else None
    else:
        known = work.outputs(found.step)
    if known is None:
        return
    if found.port not in known:
        span = part_span(located, *found.part_range(4))
        message = f"step `{found.step}` has no {found.side[:-1]} `{found.port}`"
        work.report("binding-unknown-output", span, message, did_you_mean(found.port, known))
        return
    source = known[found.port]
    if port is not None and source.is_data and not port.is_data:
        wanted = f"input `{port.name}` is {port_values.article(port.type)}"
        message = f"`{found.step}.{found.port}` is {source.type} data, but {wanted}"
        work.report("input-type", located.span, message, "bind an input of data, or write a value")


def _other_expressions(work: Work, located: Located[Any]) -> bool:
    """Report expressions with text around them: nothing resolves those outside a command."""
    found = [part for part in binding.find(located.value) if part.scope != "plan"]
    if found:
        span = part_span(located, found[0].start, found[0].end)
        message = f"`{found[0]}` has text around it, and a binding must be the whole value"
        work.report("binding-in-text", span, message, "bind it alone and join the path inside the script")
    return bool(found)


def _check_braces(work: Work, located: Located[Any]) -> None:
    text = located.value
    for start in binding.parse(text).unclosed:
        span = part_span(located, start, min(len(text), start + 3))
        help_ = "close it with `}}`, and leave no blanks inside the dotted name"
        work.report("binding-malformed", span, f"`{text[start : start + 40]}` is no expression", help_)
    found = port_values.SINGLE_BRACES.search(text)
    if found is not None:
        inner = found.group().lstrip("$").strip("{} ")
        span = part_span(located, found.start(), found.end())
        message = f"`{found.group()}` is plain text: an expression has two braces on each side"
        work.report("binding-malformed", span, message, f"write `${{{{{inner}}}}}`")


def _title(work: Work, step: str) -> str:
    uses = work.spec.steps[step].uses
    return uses.value if uses else step

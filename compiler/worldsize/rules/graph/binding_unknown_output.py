"""A binding names an output or input that the step does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from worldsize.azureml.model import Component, Job, Port, Step
from worldsize.base.problem import Finding
from worldsize.base.suggest import did_you_mean
from worldsize.documents.yaml.nodes import Mapping
from worldsize.rules.context import Context
from worldsize.rules.graph import _command
from worldsize.rules.graph._common import (
    declared_component,
    find_unknown_names,
    find_wires,
    known_ports,
    port_finder,
    suggest_fix,
)


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    finders: dict[tuple[str, str], tuple[dict[str, Port] | None, Callable[[str], bool]]] = {}
    for wire in find_wires(context, job):
        expression = wire.expression
        source = job.steps.get(expression.step or "")
        if source is None or expression.side is None or expression.port is None:
            continue
        key = (source.name, expression.side)
        if key not in finders:
            ports = known_ports(source, expression.side)
            finders[key] = ports, port_finder(ports or {})
        names, has = finders[key]
        if names is not None and not has(expression.port):
            message = f"step `{source.name}` has no {expression.side[:-1]} `{expression.port}`"
            span, help_ = wire.part(4), did_you_mean(expression.port, names)
            yield Finding(span, message, help_, fix=suggest_fix(span, expression.port, names))
    for step in job.steps.values():
        yield from _settings(step)


def _settings(step: Step) -> Iterator[Finding]:
    """Report outputs of a step that its component does not declare."""
    component = declared_component(step)
    if component is None:
        return
    for name, span, fix in find_unknown_names(step.outputs, component.outputs):
        message = f"step `{step.name}` has no output `{name}`"
        help_ = did_you_mean(name, component.outputs) or "its component declares no outputs"
        yield Finding(span, message, help_, fix=fix)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for text in _command.find_texts(context, component):
        yield from _undeclared(text, component)
    if component.type == "parallel" and component.path is not None:
        for text in _command.find_split_texts(component.raw):
            yield from _undeclared(text, component)


def _undeclared(text: _command.CommandText, component: Component) -> Iterator[Finding]:
    has = {"inputs": port_finder(component.inputs), "outputs": port_finder(component.outputs)}
    for expression in text.template.expressions:
        if expression.scope not in ("inputs", "outputs") or expression.port is None:
            continue
        ports = component.inputs if expression.scope == "inputs" else component.outputs
        if not has[expression.scope](expression.port):
            side = expression.scope[:-1]
            message = f"`{text.key}` uses the {side} `{expression.port}`, which is not declared"
            help_ = (
                did_you_mean(expression.port, ports)
                or f"declare `{expression.port}` under `{expression.scope}:`"
            )
            span = text.span(
                expression.name_start + len(expression.scope) + 1,
                expression.name_start + len(expression.name),
            )
            yield Finding(span, message, help_, fix=suggest_fix(span, expression.port, ports))


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _check_split(step)
    yield from _check_trial(context, step)


def _check_split(step: Step) -> Iterator[Finding]:
    """``input_data`` of a parallel step: its own wins over that of its component."""
    if step.type == "parallel" and step.component is not None:
        for text in _command.find_split_texts(step.raw):
            yield from _undeclared(text, step.component)


def _check_trial(context: Context, step: Step) -> Iterator[Finding]:
    """``${{search_space.x}}`` in the trial of a sweep."""
    if step.type != "sweep" or step.component is None:
        return
    space = _space(step)
    for text in _command.find_texts(context, step.component):
        for expression in text.template.expressions:
            if (
                expression.scope == "search_space"
                and expression.port is not None
                and expression.port not in space
            ):
                message = f"`search_space` has no `{expression.port}`, which the trial uses"
                span = text.span(
                    expression.name_start + len("search_space."), expression.name_start + len(expression.name)
                )
                help_ = did_you_mean(expression.port, space) or f"add `{expression.port}` to `search_space:`"
                yield Finding(span, message, help_)


def _space(step: Step) -> list[str]:
    space = step.raw.get("search_space") if isinstance(step.raw, Mapping) else None
    return list(space) if isinstance(space, Mapping) else []

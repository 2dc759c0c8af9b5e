"""Wiring by name: an open input takes the one earlier output of the same name; and what stays open."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from worldsize.azureml import binding
from worldsize.azureml.model import Binding, Field, Port
from worldsize.base import limits
from worldsize.base.span import Span
from worldsize.base.suggest import closest
from worldsize.planning.quantities import OF_TOPOLOGY, PLANNED
from worldsize.resolving.own_command import OPEN
from worldsize.resolving.state import ResolveState

_FOLDERS = {"uri_folder", "mltable", "mlflow_model", "custom_model", "triton_model", "path"}
_MODELS = {"mlflow_model", "custom_model", "triton_model"}
_SHOWN = 6  # candidates that a message names


def wire_by_name(state: ResolveState) -> None:
    """Bind every required data input that nothing was given for. Steps are taken in spec order."""
    order = {step: position for position, step in enumerate(state.spec.steps)}
    forward = any(order.get(source, -1) > order[step] for step in order for source in state.upstream(step))
    readers: dict[str, list[str]] = {}
    for step in order if forward else ():  # only then can an earlier step depend on a later one
        for source in state.upstream(step):
            readers.setdefault(source, []).append(step)
    producers: dict[str, dict[str, list[str]]] = {}  # by name and type
    unknown = False  # whether an earlier step may have outputs that cannot be seen, which was reported
    for step in state.spec.steps:
        limits.check_time()
        searched = state.searched(step)
        for port in state.open_ports(step):
            left_out = port.name in searched or port.name in state.unwired.get(step, ())
            if port.name not in state.arguments[step] and not left_out:
                earlier = producers.get(port.name, {})
                behind = _readers_of(step, readers)
                if behind:
                    earlier = {
                        type_: [source for source in sources if source not in behind]
                        for type_, sources in earlier.items()
                    }
                bound = _bind(state, step, port, earlier, order, silent=unknown)
                if bound is not None and forward:
                    readers.setdefault(bound, []).append(step)
        unknown = unknown or state.unreadable(step)
        for name, output in (state.outputs(step) or {}).items():
            producers.setdefault(name, {}).setdefault(output.type, []).append(step)


def compatible(source: str, target: str) -> bool:
    """Whether an output may feed an input of the same name without being asked to."""
    if target in (source, OPEN):
        return True
    if target in _MODELS:
        return False
    return target in ("uri_folder", "path") and source in _FOLDERS


def report_unplanned(state: ResolveState, step: str) -> None:
    """Report every required input of a planned name that neither the user nor the plan gives."""
    spec_step = state.spec.steps[step]
    place = spec_step.uses.span if spec_step.uses else spec_step.span
    for port in state.ports(step).values():
        is_set = port.name in state.arguments[step] or port.name in state.searched(step)
        if is_set or port.optional or port.default is not None:
            continue
        if port.name in PLANNED and not state.is_misspelt(step, port.name):
            state.unwired.setdefault(step, set()).add(port.name)
            if state.plan is None and (spec_step.scale is not None or port.name in OF_TOPOLOGY):
                continue
            help_ = "add `scale:` to the step, so that it is planned" if spec_step.scale is None else None
            message = f"step `{step}` needs `{port.name}`, which the plan does not give"
            state.report("input-missing", place, message, help_ or f"write `{port.name}:` under `with:`")


def _bind(
    state: ResolveState,
    step: str,
    port: Port,
    earlier: Mapping[str, list[str]],
    order: Mapping[str, int],
    *,
    silent: bool,
) -> str | None:
    """Bind an input to the one earlier step, of those by type, that fits; returns that step."""
    fitting = [sources for type_, sources in earlier.items() if sources and compatible(type_, port.type)]
    count = sum(map(len, fitting))
    if count == 1:
        source = fitting[0][0]
        expression = binding.parse_expression(binding.to_step_output(source, port.name))
        assert expression is not None
        state.arguments[step][port.name] = Field(Binding(expression))
        return source
    state.unwired.setdefault(step, set()).add(port.name)
    if count:
        first = sorted(chain.from_iterable(sources[:_SHOWN] for sources in fitting), key=order.__getitem__)
        last = max((sources[-1] for sources in fitting), key=order.__getitem__)
        _ambiguous(state, step, port, first[:_SHOWN], last, count=count)
    elif not silent and not state.is_misspelt(step, port.name):
        refused = [(source, type_) for type_, sources in earlier.items() for source in sources[:_SHOWN]]
        _nowhere(state, step, port, dict(sorted(refused, key=lambda pair: order[pair[0]])))
    return None


def _ambiguous(
    state: ResolveState, step: str, port: Port, first: list[str], last: str, *, count: int
) -> None:
    named = ", ".join(f"`{source}.{port.name}`" for source in first)
    more = f" and {count - len(first)} more" if count > len(first) else ""
    message = f"input `{port.name}` of step `{step}` could come from {named}{more}"
    text = binding.to_step_output(last, port.name)
    help_ = f"bind one under `with:`, for example `{port.name}: {text}`"
    state.report("input-ambiguous", _place(state, step, port), message, help_)


def _nowhere(state: ResolveState, step: str, port: Port, refused: Mapping[str, str]) -> None:
    bound = f"`{port.name}: {binding.to_step_output('STEP', 'OUTPUT')}`"
    if refused:
        listed = ", ".join(f"`{source}.{port.name}` is {type_}" for source, type_ in refused.items())
        message = f"step `{step}` needs `{port.name}` as {port.type}, but {listed}"[:200]
        state.report(
            "input-missing", _place(state, step, port), message, f"bind it under `with:`, as {bound}"
        )
        return
    message = f"step `{step}` needs `{port.name}`, and no earlier step has an output of that name"
    makers = state.makers()
    later = [other for other in makers.get(port.name, [])[:2] if other != step]
    near = closest(port.name, [name for name, steps in makers.items() if steps != [step]])
    help_ = f"give it under `with:`, as {bound} or a path"
    if later:
        help_ = f"move `{later[0]}` above `{step}`, or bind it under `with:`"
    elif near is not None:
        source = makers[near][0]
        help_ = f"did you mean `{near}`? write `{port.name}: {binding.to_step_output(source, near)}`"
    state.report("input-missing", _place(state, step, port), message, help_)


def _place(state: ResolveState, step: str, port: Port) -> Span:
    """Where an open input is reported: at its name in an own command, else at `uses`."""
    spec_step = state.spec.steps[step]
    if spec_step.uses is not None:
        return spec_step.uses.span
    if spec_step.command is None:
        return spec_step.span
    for expression in binding.find_expressions(spec_step.command.value):
        if expression.scope == "inputs" and expression.port == port.name:
            return spec_step.command.subspan(expression.start, expression.end)
    return spec_step.command.span


def _readers_of(step: str, readers: Mapping[str, list[str]]) -> set[str]:
    """All steps that depend on a step; only bindings to later steps make earlier ones do."""
    seen: set[str] = set()
    waiting = list(readers.get(step, ()))
    while waiting:
        current = waiting.pop()
        if current not in seen:
            limits.check_time()
            seen.add(current)
            waiting += readers.get(current, ())
    return seen

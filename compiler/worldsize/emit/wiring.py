"""Wiring by name: an open input takes the one earlier output of the same name; and what stays open."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from worldsize.azureml import binding, cycle
from worldsize.azureml.model import Binding, Field, Port
from worldsize.diagnostics.problem import Related
from worldsize.diagnostics.suggest import closest
from worldsize.emit.own_script import OPEN
from worldsize.emit.work import OF_TOPOLOGY, PLANNED, Work, part_span
from worldsize.yaml.span import Span

_FOLDERS = {"uri_folder", "mltable", "mlflow_model", "custom_model", "triton_model", "path"}
_MODELS = {"mlflow_model", "custom_model", "triton_model"}
_SHOWN = 6  # candidates that a message names


def wire(work: Work) -> None:
    """Bind every required data input that nothing was given for. Steps are taken in spec order."""
    order = {step: position for position, step in enumerate(work.spec.steps)}
    forward = any(order.get(source, -1) > order[step] for step in order for source in work.sources(step))
    producers: dict[str, list[str]] = {}
    unknown = False  # whether an earlier step may have outputs that cannot be seen, which was reported
    for step in work.spec.steps:
        for port in work.ports(step).values():
            if port.name not in work.arguments[step] and _is_open(port):
                earlier = producers.get(port.name, [])
                if forward:  # only then can an earlier step depend on this one
                    earlier = [source for source in earlier if not _reads_from(work, source, step)]
                _bind(work, step, port, earlier, silent=unknown)
        unknown = unknown or work.unreadable(step)
        for name in work.outputs(step) or {}:
            producers.setdefault(name, []).append(step)


def compatible(source: str, target: str) -> bool:
    """Whether an output may feed an input of the same name without being asked to."""
    if target in (source, OPEN):
        return True
    if target in _MODELS:
        return False
    return target in ("uri_folder", "path") and source in _FOLDERS


def report_missing(work: Work, step: str) -> None:
    """Report every required input that has neither value, binding nor default."""
    spec_step = work.spec.steps[step]
    place = spec_step.uses.span if spec_step.uses else spec_step.span
    for port in work.ports(step).values():
        if port.name in work.arguments[step] or port.optional or port.default is not None:
            continue
        if port.name in PLANNED:
            if work.plan is None and (spec_step.scale is not None or port.name in OF_TOPOLOGY):
                continue
            help_ = "add `scale:` to the step, so that it is planned" if spec_step.scale is None else None
            message = f"step `{step}` needs `{port.name}`, which the plan does not give"
            work.report("input-missing", place, message, help_ or f"write `{port.name}:` under `with:`")
        elif not port.is_data:
            message = f"step `{step}` needs input `{port.name}`, {_kind(port)}"
            work.report("input-missing", place, message, f"write `{port.name}:` under `with:`")


def find_cycle(work: Work) -> list[str] | None:
    """The steps of one cycle in the order data flows, or None. Linear in steps and bindings."""
    return cycle.find(work.spec.steps, work.sources)


def report_cycle(work: Work) -> None:
    """Report one cycle, pointing at the binding that closes it."""
    found = find_cycle(work)
    if found is None:
        return
    first, last = found[0], found[-1]
    name, span = work.sources(first)[last]
    place = span or work.spec.steps[first].span
    if len(found) == 1:
        message = f"input `{name}` of step `{first}` is bound to the step's own output"
        work.report("graph-cycle", place, message, "bind it to an earlier step")
        return
    shown = found if len(found) <= 8 else [*found[:7], "…"]
    message = "steps wait for each other: " + " → ".join(f"`{step}`" for step in [*shown, first])
    related = [
        Related(span, f"`{step}` reads from `{source}`")
        for source, step in pairwise(found)
        if (span := work.sources(step)[source][1])
    ]
    work.report("graph-cycle", place, message, "remove one of these bindings", *related)


def _is_open(port: Port) -> bool:
    return port.is_data and not port.optional and port.default is None


def _bind(work: Work, step: str, port: Port, earlier: list[str], *, silent: bool) -> None:
    types = {source: (work.outputs(source) or {})[port.name].type for source in earlier}
    fitting = [source for source, type_ in types.items() if compatible(type_, port.type)]
    if len(fitting) == 1:
        found = binding.whole(binding.to_step_output(fitting[0], port.name))
        assert found is not None
        work.arguments[step][port.name] = Field(Binding(found))
    elif fitting:
        _ambiguous(work, step, port, fitting)
    elif not silent:
        _nowhere(work, step, port, types)


def _ambiguous(work: Work, step: str, port: Port, fitting: list[str]) -> None:
    named = ", ".join(f"`{source}.{port.name}`" for source in fitting[:_SHOWN])
    more = f" and {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
    message = f"input `{port.name}` of step `{step}` could come from {named}{more}"
    text = binding.to_step_output(fitting[-1], port.name)
    help_ = f"say which under `with:`, for example `{port.name}: {text}`"
    work.report("input-ambiguous", _place(work, step, port), message, help_)


def _nowhere(work: Work, step: str, port: Port, refused: Mapping[str, str]) -> None:
    bound = f"`{port.name}: {binding.to_step_output('STEP', 'OUTPUT')}`"
    if refused:
        listed = ", ".join(f"`{source}.{port.name}` is {type_}" for source, type_ in refused.items())
        message = f"step `{step}` needs `{port.name}` as {port.type}, but {listed}"[:200]
        work.report("input-missing", _place(work, step, port), message, f"bind it under `with:`, as {bound}")
        return
    message = f"step `{step}` needs `{port.name}`, and no earlier step has an output of that name"
    later = [other for other in work.spec.steps if port.name in (work.outputs(other) or {}) and other != step]
    known = {name for other in work.spec.steps for name in work.outputs(other) or {} if other != step}
    near = closest(port.name, known)
    help_ = f"give it under `with:`, as {bound} or a path"
    if later:
        help_ = f"move `{later[0]}` above `{step}`, or bind it under `with:`"
    elif near is not None:
        source = next(other for other in work.spec.steps if near in (work.outputs(other) or {}))
        help_ = f"did you mean `{near}`? write `{port.name}: {binding.to_step_output(source, near)}`"
    work.report("input-missing", _place(work, step, port), message, help_)


def _place(work: Work, step: str, port: Port) -> Span:
    """Where an open input is reported: at its name in an own command, else at `uses`."""
    spec_step = work.spec.steps[step]
    if spec_step.uses is not None:
        return spec_step.uses.span
    if spec_step.command is None:
        return spec_step.span
    for found in binding.find(spec_step.command.value):
        if found.scope == "inputs" and found.port == port.name:
            return part_span(spec_step.command, found.start, found.end)
    return spec_step.command.span


def _reads_from(work: Work, step: str, source: str) -> bool:
    """Whether a step already depends on another; only bindings to later steps make that possible."""
    seen: set[str] = set()
    waiting = [step]
    order = work.spec.steps
    while waiting:
        current = waiting.pop()
        if current == source:
            return True
        if current in seen or current not in order:
            continue
        seen.add(current)
        waiting += work.sources(current)
    return False


def _kind(port: Port) -> str:
    return f"{'an' if port.type[:1] in 'aeiou' else 'a'} {port.type} without default"

"""A spec and its plan as an Azure ML job graph: every input bound, every number in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import binding
from worldsize.azureml.files import Files
from worldsize.azureml.model import (
    Binding,
    Component,
    Data,
    Field,
    Job,
    Literal,
    OutputSetting,
    Port,
    Step,
)
from worldsize.azureml.snapshot import Snapshot
from worldsize.base import budget
from worldsize.base.problem import Problem
from worldsize.base.suggest import did_you_mean
from worldsize.emit import data_source, gate, given, own_script, planned, settings, user_files, wiring
from worldsize.emit.own_script import OPEN
from worldsize.emit.work import Work, part_span
from worldsize.planning import missing
from worldsize.planning.model import Plan
from worldsize.spec.model import Spec


class Resolved(Struct, frozen=True):
    """A job graph, and per step what the spec adds to its component.

    ``added`` are files of the user's tree that join the snapshot of a step with ``uses:``.
    ``templates`` are the texts, by input name, that the plan filled in: whoever runs the pipeline
    with fewer processes fills them again.
    """

    job: Job
    added: Mapping[str, Snapshot] = field(default_factory=dict)
    templates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def resolve(
    spec: Spec,
    components: Mapping[str, Component | None],
    plan: Plan | None,
    files: Files | None = None,
) -> tuple[Resolved, list[Problem]]:
    """Resolve a spec.

    Args:
        spec: The spec.
        components: By step its component, from :func:`worldsize.emit.lookup.find`.
        plan: The plan; None where planning failed. Everything else is still checked then.
        files: What may be read and copied.

    Returns:
        The graph and every problem met. With problems or without a plan the graph is good for
        further checks, not for emitting.
    """
    work = wired(spec, components, plan, files)
    settings.check_clusters(work)
    for step in spec.steps:
        budget.check_time()
        user_files.check_named(work, step)
    for step in spec.steps:
        budget.check_time()
        _carry_plan(work, step)
        planned.fill_inputs(work, step)
    _type_open_inputs(work)
    for step in spec.steps:
        budget.check_time()
        wiring.report_missing(work, step)
        gate.check_metrics(work, step)
        data_source.check(work, step)
    wiring.report_cycle(work)
    added = {step: user_files.collect(work, step) for step in spec.steps}
    steps = {step: _step(work, step) for step in spec.steps}
    return Resolved(settings.job(spec, steps), added, work.templates), work.problems


def wired(
    spec: Spec,
    components: Mapping[str, Component | None],
    plan: Plan | None = None,
    files: Files | None = None,
) -> Work:
    """The first half of :func:`resolve`: what ``with:`` gives, and what wiring by name binds."""
    work = Work(spec, dict(components), plan, files or Files())
    for step in spec.steps:
        budget.check_time()
        work.arguments[step] = given.read(work, step)
        gate.give(work, step)
    wiring.wire(work)
    return work


def _carry_plan(work: Work, step: str) -> None:
    """Turn the quantities that an own command takes from the plan into inputs of its component."""
    spec_step = work.spec.steps[step]
    component = work.components.get(step)
    if spec_step.command is None or component is None:
        return
    _check_command(work, step, component)
    carried = {
        quantity: name
        for quantity, name in own_script.plan_inputs(spec_step).items()
        if planned.is_known(quantity) and (work.plan is None or planned.value_of(work, step, quantity))
    }  # one that the plan lacks is reported by the check of the command
    for quantity, name in carried.items():
        found = planned.value_of(work, step, quantity)
        if found is None:
            continue
        work.arguments[step][name] = Field(Literal(found[0]), comment=found[1])
        work.templates.setdefault(step, {})[name] = f"${{{{plan.{quantity}}}}}"
    work.components[step] = own_script.with_planned(component, carried)


def _check_command(work: Work, step: str, component: Component) -> None:
    """Report expressions of a command that lead nowhere."""
    command = work.spec.steps[step].command
    assert command is not None
    template = binding.parse(command.value)
    for start in template.unclosed:
        span = part_span(command, start, start + 3)
        text = command.value[start : start + 40]
        work.report("binding-malformed", span, f"`{text}` is never closed", "close it with `}}` or `]]`")
    for found in template.expressions:
        span = part_span(command, found.start, found.end)
        if found.scope == "outputs" and found.port not in component.outputs:
            message = f"the command writes to `{found}`, which `outputs:` does not declare"
            help_ = f"add `outputs: {{{found.port}: uri_folder}}` to the step"
            near = did_you_mean(found.port or "", component.outputs) if component.outputs else None
            work.report("binding-unknown-output", span, message, near or help_)
        elif found.scope == "plan":
            _check_quantity(work, step, found, span)
        elif found.scope not in ("inputs", "outputs"):
            message = f"`{found}` cannot stand in a command"
            help_ = "bind it to an input under `with:` and write `${{inputs.NAME}}`"
            work.report("binding-unknown-scope", span, message, help_)


def _check_quantity(work: Work, step: str, found: binding.Expression, span: Any) -> None:
    name = found.port or ""
    if not planned.is_known(name):
        message = f"the plan has no quantity `{name}`"
        work.report("plan-unknown-quantity", span, message, did_you_mean(name, planned.names()))
    elif work.plan is not None and planned.value_of(work, step, name) is None:
        work.report("plan-unknown-quantity", span, *missing.explain(work.plan, step, name))


def _type_open_inputs(work: Work) -> None:
    """Give the inputs of own commands the type of what feeds them."""
    for step, component in work.components.items():
        if component is None or not any(port.type == OPEN for port in component.inputs.values()):
            continue
        ports = {
            name: replace(port, type=_type_of(work, step, name, set())) if port.type == OPEN else port
            for name, port in component.inputs.items()
        }
        work.components[step] = replace(component, inputs=ports)


def _type_of(work: Work, step: str, name: str, seen: set[tuple[str, str]]) -> str:
    argument = work.arguments.get(step, {}).get(name)
    if argument is None or (step, name) in seen:
        return "uri_folder"
    value = argument.value
    if isinstance(value, Data):
        return value.type or "uri_folder"
    if isinstance(value, Binding):
        source, port = value.expression.step or "", value.expression.port or ""
        if value.expression.side == "inputs":
            found: Port | None = work.ports(source).get(port)
            if found is not None and found.type == OPEN:
                return _type_of(work, source, port, {*seen, (step, name)})
        else:
            found = (work.outputs(source) or {}).get(port)
        return found.type if found is not None else "uri_folder"
    return own_script.type_of(value.value, work.folder)


def _step(work: Work, step: str) -> Step:
    budget.check_time()
    spec_step = work.spec.steps[step]
    component = work.components.get(step)
    arguments = work.arguments[step]
    order = dict.fromkeys(name for name in work.ports(step) if name in arguments)
    order |= dict.fromkeys(arguments)
    uses = spec_step.uses
    return Step(
        name=step,
        type=component.type if component else "command",
        span=spec_step.span,
        component=component,
        reference=Field(uses.value, uses.span, uses.key_span, uses.node) if uses else None,
        inputs={name: arguments[name] for name in order},
        outputs=_outputs(work, step),
        compute=settings.compute(work, step),
        resources=settings.resources(work, step),
        distribution=settings.distribution(work, step),
        limits=settings.limits(spec_step),
        environment_variables=settings.environment_variables(work, step),
        display_name=settings.field(spec_step.display_name),
        comment=settings.field(spec_step.description),
    )


def _outputs(work: Work, step: str) -> dict[str, Field[OutputSetting]]:
    """Settings of outputs beyond their type, which the component declares."""
    declared = work.outputs(step)
    found: dict[str, Field[OutputSetting]] = {}
    for name, located in work.spec.steps[step].outputs.items():
        if declared is not None and name not in declared:
            message = f"step `{step}` has no output `{name}`"
            work.report("binding-unknown-output", located.key_span, message, did_you_mean(name, declared))
        value = located.value
        keys = ("path", "mode", "name", "version")
        if isinstance(value, dict) and any(key in value for key in keys):
            parts = {key: Field(value[key]) if key in value else None for key in keys}
            type_ = declared[name].type if declared and name in declared else value.get("type")
            found[name] = Field(OutputSetting(type=type_, **parts), located.span, located.key_span)
    return found

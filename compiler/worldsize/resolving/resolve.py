"""A spec and its plan as an Azure ML job graph: every input bound, every number in its place.

The order is: find the components, bind what ``with:`` and names bind, count the rows, plan, fill in the plan.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import graph
from worldsize.azureml.files import Files
from worldsize.azureml.model import Argument, Binding, Data, Field, Literal, Port, Step
from worldsize.base import limits, resources
from worldsize.base.problem import Problem
from worldsize.base.wording import join_words, shorten
from worldsize.documents.yaml import Document
from worldsize.facts.vm_sizes import NOT_LEARNED, Learned
from worldsize.planning import derive
from worldsize.resolving import (
    components,
    estimate_findings,
    own_command,
    pipeline_ports,
    plan_values,
    quality_gate,
    rows,
    step_settings,
    sweeps,
    user_files,
    wiring,
)
from worldsize.resolving.own_command import OPEN
from worldsize.resolving.plan_values import plan_expressions
from worldsize.resolving.planned import Planned
from worldsize.resolving.state import ResolveState
from worldsize.spec import from_document
from worldsize.spec.model import Located, Spec


def plan_document(
    document: Document, files: Files, vm_sizes: Learned
) -> tuple[Planned | None, list[Problem]]:
    """Plan the spec of a parsed file; None if it cannot be planned. The problems are those of reading it."""
    spec, problems = from_document(document)
    return (None if spec is None else plan_spec(spec, files, vm_sizes)), problems


def plan_spec(spec: Spec, files: Files | None = None, vm_sizes: Learned = NOT_LEARNED) -> Planned:
    """Plan a spec: everything that needs no output folder. ``vm_sizes`` are those of the project."""
    files = files or Files()
    by_step, problems = components.find_components(spec, files)
    state = ResolveState(spec, by_step, files, problems=problems)
    _bind(state)
    consequences = _plan(state, vm_sizes)
    _fill(state)
    _report_missing(state)
    added = {step: user_files.collect_files(state, step) for step in spec.steps}
    bound = pipeline_ports.bind_outputs(state)
    steps = {step: _build_step(state, step, bound) for step in spec.steps}
    pipeline_ports.check_unused(state, steps)
    computes = {name: step_settings.read_compute(spec, profile) for name, profile in spec.compute.items()}
    job = replace(
        step_settings.build_job(spec, steps, computes),
        inputs=pipeline_ports.read_inputs(spec, steps),
        outputs=pipeline_ports.read_outputs(state, bound),
    )
    planned = Planned(
        spec,
        job,
        state.plan,
        files,
        computes,
        added,
        state.templates,
        state.samples,
        tuple(state.problems),
        tuple(consequences),
        vm_sizes,
    )
    checks = (
        estimate_findings.check_arithmetic,
        estimate_findings.check_networks,
        estimate_findings.check_models,
        estimate_findings.check_schedule,
    )
    findings = [problem for check in checks for problem in check(planned)]
    return replace(planned, problems=(*planned.problems, *findings)) if findings else planned


def _bind(state: ResolveState) -> None:
    """What ``with:`` gives, and what wiring by name binds."""
    for step in state.spec.steps:
        limits.check_time()
        state.arguments[step] = read_arguments(state, step)
        pipeline_ports.bind_inputs(state, step)
        quality_gate.set_gate_inputs(state, step)
    wiring.wire_by_name(state)


def _plan(state: ResolveState, vm_sizes: Learned) -> list[Problem]:
    """Derive the plan; return what follows from counts that a rule reports."""
    interfaces = components.read_interfaces(state.components, state.files)
    derived = derive.derive(state.spec, interfaces, rows.count_rows(state), vm_sizes)
    state.plan, state.topologies = derived.plan, derived.topologies
    if state.plan is not None:
        state.plan = rows.explain_tasks(state, state.plan)
    state.problems += derived.problems
    return derived.consequences


def _fill(state: ResolveState) -> None:
    step_settings.check_clusters(state)
    for step in state.spec.steps:
        limits.check_time()
        fill_arguments(state, step)
    for step in state.spec.steps:
        limits.check_time()
        own_command.carry_plan(state, step)
        plan_values.fill_inputs(state, step)
        sweeps.derive_in_trials(state, step)
    own_command.type_open_inputs(state)


def _report_missing(state: ResolveState) -> None:
    """Report what the graph still lacks, or cannot have."""
    for step in state.spec.steps:
        limits.check_time()
        wiring.report_unplanned(state, step)
        check_passed(state, step)
        quality_gate.check_metrics(state, step)
        sweeps.check_sweep(state, step)
        sweeps.check_commands(state, step)


def _build_step(state: ResolveState, step: str, bound: pipeline_ports.Bound) -> Step:
    limits.check_time()
    spec_step = state.spec.steps[step]
    component = state.components.get(step)
    inputs = state.arguments[step]
    order = dict.fromkeys([*(name for name in state.ports(step) if name in inputs), *inputs])
    return Step(
        name=step,
        type="sweep" if spec_step.sweep else component.type if component else "command",
        span=spec_step.span,
        component=component,
        reference=spec_step.uses,
        inputs={name: inputs[name] for name in order},
        outputs=pipeline_ports.join_outputs(step_settings.outputs(state, step), step, bound),
        compute=step_settings.compute(state, step),
        resources=step_settings.resources(state, step),
        distribution=step_settings.distribution(state, step),
        limits=step_settings.limits(spec_step),
        environment_variables=step_settings.environment_variables(state, step),
        display_name=spec_step.display_name,
        comment=spec_step.description,
        raw=sweeps.compile_sweep(spec_step),
        unwired=frozenset(state.unwired.get(step, ())),
    )


# What the step needs to hear of each: names of planned quantities, or of inputs that somebody fills by hand.
_NEEDED = {
    "batch_size_per_device": re.compile(r"batch", re.IGNORECASE),
    "learning_rate": re.compile(r"\blr\b|_lr\b|learning_?rate", re.IGNORECASE),
}


def check_passed(state: ResolveState, step: str) -> None:
    """Report a planned step of a registered component to which ``with:`` does not pass batch size or rate.

    Where the file of the component is here, its inputs are filled by name, and a command may have numbers of
    its own.
    """
    spec_step, plan = state.spec.steps[step], state.step_plan(step)
    if spec_step.uses is None or spec_step.scale is None or plan is None or plan.training is None:
        return
    if state.components.get(step) is not None or state.unreadable(step):
        return
    values = {**spec_step.with_, **spec_step.environment_variables}
    names = [*values, *state.searched(step)]
    names += [str(named.port) for value in values.values() for named in plan_expressions(value.value)]
    missing = [name for name, pattern in _NEEDED.items() if not any(map(pattern.search, names))]
    if not missing:
        return
    uses = spec_step.uses.value
    numbers = join_words([f"`{name}`" for name in missing], "and")
    message = (
        f"the planned {numbers} {'do' if len(missing) > 1 else 'does'} not reach step `{step}`:"
        f" the inputs of `{shorten(uses, 60)}` are not known here"
    )
    lines = join_words([f"`{name}: ${{{{plan.{name}}}}}`" for name in missing], "and")
    help_ = f"write {lines} under `with:`"
    name = uses.removeprefix("azureml:").partition("@")[0].partition(":")[0]
    if name in resources.component_names():
        help_ += f", or write `uses: {name}`, whose inputs are known"
    state.report("plan-not-passed", spec_step.scale.span, message, help_)


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
        arguments[name] = replace(located, value=argument)
    return arguments


def fill_arguments(state: ResolveState, step: str) -> None:
    """Fill the arguments of a step that name the plan."""
    for name in state.templates.get(step, ()):
        located = state.spec.steps[step].with_[name]
        filled = plan_values.fill_text(state, step, located)
        argument: Argument = Literal(filled.value)
        if state.plan is not None:
            argument = _to_data(argument, located, state.ports(step).get(name))
        state.arguments[step][name] = replace(
            located, value=argument, comment=filled.comment, sources=filled.sources
        )


def _to_data(argument: Argument, located: Located[Any], port: Port | None) -> Argument:
    """Data that is given as a mere path, or without its type, with the type of its port."""
    if port is None or not port.is_data or port.type == OPEN or isinstance(argument, Binding):
        return argument
    if isinstance(argument, Data):
        return argument if argument.type else Data(port.type, argument.path, argument.mode)
    if not isinstance(argument.value, str):
        return argument
    return Data(port.type, replace(located, value=argument.value))

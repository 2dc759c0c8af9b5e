"""A spec and its plan as an Azure ML job graph: every input bound, every number in its place.

The order is: find the components, bind what ``with:`` and names bind, count the rows, plan, fill in the plan.
"""

from __future__ import annotations

from msgspec.structs import replace

from worldsize.azureml.files import Files
from worldsize.azureml.model import Step
from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.facts.vm_sizes import NOT_LEARNED, Learned
from worldsize.resolving import (
    arguments,
    components,
    own_command,
    passed_plan,
    pipeline_ports,
    plan_values,
    quality_gate,
    rows,
    slow_networks,
    step_settings,
    sweeps,
    user_files,
    wiring,
)
from worldsize.resolving.state import ResolvedSpec, ResolveState, as_field
from worldsize.spec.model import Spec


def resolve_spec(spec: Spec, files: Files | None = None, vm_sizes: Learned = NOT_LEARNED) -> ResolvedSpec:
    """Resolve a spec: everything that needs no output folder. ``vm_sizes`` are those of the project."""
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
    job = replace(
        step_settings.build_job(spec, steps),
        inputs=pipeline_ports.read_inputs(spec, steps),
        outputs=pipeline_ports.read_outputs(state, bound),
    )
    resolved = ResolvedSpec(
        spec,
        state.plan,
        job,
        added,
        state.templates,
        files,
        tuple(state.problems),
        tuple(consequences),
        vm_sizes,
    )
    found = tuple(slow_networks.check_networks(resolved))
    return replace(resolved, problems=(*resolved.problems, *found)) if found else resolved


def _bind(state: ResolveState) -> None:
    """What ``with:`` gives, and what wiring by name binds."""
    for step in state.spec.steps:
        limits.check_time()
        state.arguments[step] = arguments.read_arguments(state, step)
        pipeline_ports.bind_inputs(state, step)
        quality_gate.set_gate_inputs(state, step)
    wiring.wire_by_name(state)


def _plan(state: ResolveState, vm_sizes: Learned) -> list[Problem]:
    """Derive the plan; return what follows from counts that a rule reports."""
    from worldsize.planning.derive import derive  # the catalogue of VM sizes is read by it

    interfaces = components.read_interfaces(state.components, state.files)
    derived = derive(state.spec, interfaces, rows.count_rows(state), vm_sizes)
    state.plan, state.topologies = derived.plan, derived.topologies
    if state.plan is not None:
        state.plan = rows.explain_tasks(state, state.plan)
    state.problems += derived.problems
    return derived.consequences


def _fill(state: ResolveState) -> None:
    """Put the plan into the graph."""
    step_settings.check_clusters(state)
    for step in state.spec.steps:
        limits.check_time()
        arguments.fill_arguments(state, step)
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
        passed_plan.check_passed(state, step)
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
        reference=as_field(spec_step.uses),
        inputs={name: inputs[name] for name in order},
        outputs=pipeline_ports.join_outputs(step_settings.outputs(state, step), step, bound),
        compute=step_settings.compute(state, step),
        resources=step_settings.resources(state, step),
        distribution=step_settings.distribution(state, step),
        limits=step_settings.limits(spec_step),
        environment_variables=step_settings.environment_variables(state, step),
        display_name=as_field(spec_step.display_name),
        comment=as_field(spec_step.description),
        raw=sweeps.compile_sweep(spec_step),
        unwired=frozenset(state.unwired.get(step, ())),
    )

"""Derives the plan of every step from a spec and the interfaces of its components."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.wording import drop_fraction, round_noise
from worldsize.facts.vm_sizes import NOT_LEARNED, Learned, VmSize, lookup
from worldsize.planning import conflicts, sweeps
from worldsize.planning.model import Interface, Notes, Plan, PlanValue, StepPlan, Topology, Training
from worldsize.planning.options import Settings
from worldsize.planning.parallelism import plan_mesh
from worldsize.planning.resilience import note_early_stopping, plan_resilience
from worldsize.planning.shared_memory import plan_shared_memory
from worldsize.planning.topology import plan_topology
from worldsize.planning.train import plan_training
from worldsize.spec.model import ComputeProfile, Spec, Step


class Derived(NamedTuple):
    """A plan, with what was found on the way.

    The plan is None where a step cannot be planned at all. A plan that comes with problems is good for
    showing, and for emitting where none of them is an error.
    """

    plan: Plan | None
    problems: list[Problem]
    topologies: Mapping[str, Topology]  # by step, also of steps that cannot be planned further
    consequences: list[Problem]  # of counts that a rule reports


def derive(
    spec: Spec,
    interfaces: Mapping[str, Interface] | None = None,
    rows: Mapping[str, int] | None = None,
    vm_sizes: Learned = NOT_LEARNED,
) -> Derived:
    """Derive the plan of a spec. Pure: reads no file, asks no clock.

    ``interfaces`` lacks the steps whose component cannot be read; ``rows`` has the training split of those
    steps whose rows were counted. ``vm_sizes`` are those that the project describes.
    """
    steps: dict[str, StepPlan] = {}
    topologies: dict[str, Topology] = {}
    problems: list[Problem] = []
    consequences: list[Problem] = []
    complete = True
    for name, step in spec.steps.items():
        limits.check_time()
        notes = Notes(name)
        interface = (interfaces or {}).get(name)
        counted = (rows or {}).get(name)
        profile = spec.profile_of(name)
        typed = profile.instance_type if profile is not None else None
        size = lookup(typed.value, vm_sizes) if typed is not None else None
        placed = plan_topology(step, profile, interface, size, notes)
        step_plan = None
        if placed is not None:
            topologies[name] = placed
            plan_step = partial(
                _step, profile=profile, size=size, placed=placed, interface=interface, counted=counted
            )
            step_plan = sweeps.plan_sweep(step, plan_step, notes)
        problems += notes.problems
        consequences += notes.consequences
        if step_plan is None:
            complete = False
        else:
            steps[name] = step_plan
    plan = Plan(spec.name.value, steps) if complete else None
    unique = list(dict.fromkeys(problems))  # two steps on one profile meet the same VM size
    return Derived(plan, unique, topologies, consequences)


def _step(
    step: Step,
    notes: Notes,
    *,
    profile: ComputeProfile | None,
    size: VmSize | None,
    placed: Topology,
    interface: Interface | None,
    counted: int | None,
) -> StepPlan | None:
    settings = Settings(step, interface, placed, notes)
    topology = plan_mesh(settings)
    if topology is None:
        return None
    settings = replace(settings, topology=topology)
    conflicts.check_conflicts(settings)
    training = None
    if step.scale is not None:
        training = plan_training(settings, counted)
        if training is None:
            return None
    plan_shared_memory(step, interface, topology, size, notes)
    resilience = plan_resilience(step, profile, topology, notes)
    note_early_stopping(settings)
    return StepPlan(
        step=step.name,
        topology=topology,
        training=training,
        derivations=tuple(notes.derivations),
        advice=tuple(notes.advice),
        inputs={**planned_inputs(topology, training), **resilience},
    )


_OFTEN_WHOLE = ("epochs", "warmup_epochs", "gpus_per_instance")


def planned_inputs(topology: Topology, training: Training | None) -> dict[str, PlanValue]:
    """Every known quantity by its name, for inputs and ``${{plan.…}}``."""
    quantities: dict[str, PlanValue] = {}
    for part in (topology, training):
        for name in part.__struct_fields__ if part is not None else ():
            value = getattr(part, name)
            if value is not None:
                quantities[name] = drop_fraction(value) if name in _OFTEN_WHOLE else value
    if training is not None and training.epochs:
        quantities["warmup_ratio"] = round_noise(training.warmup_epochs / training.epochs)
    return {**quantities, "data_parallel_size": topology.data_parallel_size}

"""The same training with fewer processes: same global batch, same steps, more accumulation.

The samples of a global batch depend on neither the world size nor the accumulation, so a plan for 64
GPUs walks the same loss curve on two processes, up to the order of floating-point sums.
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.planning import batch
from worldsize.planning.derive import planned_inputs
from worldsize.planning.model import Derivation, Plan, PlanValue, StepPlan, Topology, Training
from worldsize.records import replace


def localise(plan: Plan, processes: int, *, grow: bool = False) -> Plan:
    """Fit a plan to one machine.

    Every training step keeps its global batch ``G`` and its micro-batch ``b``. Its world size becomes the
    largest divisor of ``G / b`` that is not above ``processes``, each step its own; accumulation becomes
    ``G / (b·W′)``. Nothing else that a step is told changes. A step that does not train gets at most as
    many processes as were planned.

    Args:
        plan: The plan.
        processes: Processes that may run side by side for one step, at least 1.
        grow: Whether a step may get more processes than planned, taken from its accumulation.

    Raises:
        ValueError: ``processes`` is below 1.
    """
    if processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    return Plan(plan.name, {name: _step(step, processes, grow=grow) for name, step in plan.steps.items()})


def _step(step: StepPlan, processes: int, *, grow: bool) -> StepPlan:
    planned = step.topology
    if planned.launcher == "none":
        return replace(
            step, topology=replace(planned, instance_count=1), inputs=_inputs(step, planned, step.training)
        )
    most = processes if grow and step.training else min(processes, planned.world_size)
    training = step.training
    if training is None:
        world = most
    else:
        share = training.global_batch_size // training.batch_size_per_device
        world, accumulation = batch.split(share, most)
        training = replace(training, gradient_accumulation_steps=accumulation)
    topology = replace(
        planned,
        instance_count=1,
        process_count_per_instance=world,
        world_size=world,
        worker_count=None if planned.worker_count is None else world,
    )
    return replace(
        step,
        topology=topology,
        training=training,
        derivations=_derivations(step, topology, training),
        inputs=_inputs(step, topology, training),
    )


def _inputs(step: StepPlan, topology: Topology, training: Training | None) -> Mapping[str, PlanValue]:
    one = replace(topology, instance_count=1)
    return {**step.inputs, **planned_inputs(one, training)}


def _derivations(step: StepPlan, topology: Topology, training: Training | None) -> tuple[Derivation, ...]:
    """The rows of the table, those that changed with what they were planned as."""
    changed: dict[str, tuple[PlanValue, str]] = {
        "world_size": (topology.world_size, "processes that run side by side here"),
        "process_count_per_instance": (topology.process_count_per_instance, "all on this machine"),
        "worker_count": (topology.world_size, "all on this machine"),
    }
    if training is not None:
        b, a = training.batch_size_per_device, training.gradient_accumulation_steps
        whole, world = training.global_batch_size, topology.world_size
        changed["gradient_accumulation_steps"] = (a, f"{whole} / {b} / {world}")
        changed["global_batch_size"] = (whole, f"{b} × {a} × {world}")
    return tuple(_changed(row, changed) for row in step.derivations)


def _changed(row: Derivation, changed: Mapping[str, tuple[PlanValue, str]]) -> Derivation:
    if row.quantity not in changed:
        return row
    value, formula = changed[row.quantity]
    source = "the same global batch" if value == row.value else f"planned {row.value}"
    return Derivation(row.quantity, value, formula, source)

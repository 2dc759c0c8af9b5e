"""Fits a plan to fewer processes: the same global batch and steps, with more accumulation.

The samples of a global batch depend on neither the world size nor the accumulation, so a plan for 64
GPUs walks the same loss curve on two processes, up to the order of floating-point sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from worldsize.base.wording import round_noise
from worldsize.planning import degrees
from worldsize.planning.derive import planned_inputs
from worldsize.planning.model import Derivation, Plan, PlanValue, StepPlan, Topology, Training
from wstrain.scaling import split_batch


def localise(plan: Plan, processes: int, *, grow: bool = False, keep_instances: bool = False) -> Plan:
    """Fit a plan to one machine.

    Every training step keeps its global batch ``G`` and its micro-batch ``b``. Its data-parallel size becomes
    the largest divisor of ``G / b`` whose replicas fit ``processes``, each step its own; accumulation
    becomes ``G / (b·D′)``. A replica keeps its tensor and pipeline degrees where one fits; where not even
    one does, they shrink to divisors of theirs, which split the same model into fewer parts, down to one
    process that splits nothing. No other input of a step changes. A step that does not train gets at
    most as many processes as were planned.

    Args:
        plan: The plan.
        processes: Processes that may run side by side for one step, at least 1.
        grow: Whether a step may get more processes than planned, taken from its accumulation.
        keep_instances: Whether a step keeps its instances, each with the same number of processes and at
            least one, also where that is more than ``processes``. Otherwise one instance has all.

    Raises:
        ValueError: ``processes`` is below 1.
    """
    if processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    fitted = _spread if keep_instances else _step
    return Plan(plan.name, {name: fitted(step, processes, grow=grow) for name, step in plan.steps.items()})


def _spread(step: StepPlan, processes: int, *, grow: bool) -> StepPlan:
    """Fit a step so that its instances share the processes equally; else one instance has them all."""
    count = step.topology.instance_count
    if not step.topology.is_distributed or count == 1:
        return _step(step, processes, grow=grow)
    limit = max(processes, count)
    while limit >= count:
        here = _step(step, limit, grow=grow)
        ranks, left = divmod(here.topology.world_size, count)
        if not left:
            topology = here.topology.with_ranks(count, ranks)
            derivations = _derivations(step, topology, here.training)
            inputs = {**here.inputs, **planned_inputs(topology, here.training)}
            return replace(here, topology=topology, derivations=derivations, inputs=inputs)
        limit = min(limit, here.topology.world_size) - 1
    return _step(step, processes, grow=grow)


def _step(step: StepPlan, processes: int, *, grow: bool) -> StepPlan:
    planned = step.topology
    if not planned.is_distributed:
        return replace(
            step, topology=replace(planned, instance_count=1), inputs=_inputs(step, planned, step.training)
        )
    limit = processes if grow and step.training else min(processes, planned.world_size)
    tensor, pipeline = degrees.shrink_degrees(
        planned.tensor_parallel_size, planned.pipeline_parallel_size, limit
    )
    whole = planned.splits_model and tensor * pipeline == 1
    data = 1 if whole else limit // (tensor * pipeline)
    training = step.training
    if training is not None and not planned.parameter_server_count:  # whose batch is one worker's anyway
        share = training.global_batch_size // training.batch_size_per_device
        if training.gradient_accumulation_steps >= pipeline:
            data = min(data, share // pipeline)  # growing must not leave stages without micro-batches
        data, _ = split_batch(_shared_by_trials(step, share), data)
        accumulation = share // data
        training = replace(training, gradient_accumulation_steps=accumulation)
    world = data * tensor * pipeline
    topology = replace(
        planned.with_ranks(1, world),
        worker_count=None if planned.worker_count is None else world,
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
    )
    return replace(
        step,
        topology=topology,
        training=training,
        derivations=_derivations(step, topology, training),
        inputs=_inputs(step, topology, training),
    )


def _shared_by_trials(step: StepPlan, share: int) -> int:
    """The micro-batches of an optimizer step that replicas can share in every trial."""
    trials = step.sweep.trials if step.sweep is not None else ()
    shares = [
        int(trial.inputs["global_batch_size"]) // int(trial.inputs["batch_size_per_device"])
        for trial in trials
    ]
    return math.gcd(share, *shares)


def _inputs(step: StepPlan, topology: Topology, training: Training | None) -> Mapping[str, PlanValue]:
    one = replace(topology, instance_count=1)
    return {**step.inputs, **planned_inputs(one, training)}


def _derivations(step: StepPlan, topology: Topology, training: Training | None) -> tuple[Derivation, ...]:
    """The rows of the table; changed rows name the planned value."""
    count = topology.instance_count
    place = "all on this machine" if count == 1 else f"{topology.world_size} / {count} instances"
    changed: dict[str, tuple[PlanValue, str]] = {
        "world_size": (topology.world_size, "processes that run side by side here"),
        "process_count_per_instance": (topology.process_count_per_instance, place),
        "local_world_size": (topology.local_world_size or 1, place),
        "worker_count": (topology.world_size, "all on this machine"),
    }
    data, tensor = topology.data_parallel_size, topology.tensor_parallel_size
    pipeline = topology.pipeline_parallel_size
    changed["data_parallel_size"] = (data, f"{topology.world_size} / ({tensor} × {pipeline})")
    changed["tensor_parallel_size"] = (tensor, "ranks that share a layer here")
    changed["pipeline_parallel_size"] = (pipeline, "stages here")
    changed["mesh"] = (topology.world_size, degrees.Degrees(data, tensor, pipeline).shown())
    if training is not None:
        b, a, whole = (
            training.batch_size_per_device,
            training.gradient_accumulation_steps,
            training.global_batch_size,
        )
        changed["gradient_accumulation_steps"] = (a, f"{whole} / {b} / {data}")
        changed["global_batch_size"] = (whole, f"{b} × {a} × {data}")
        idle = degrees.bubble_share(pipeline, a)
        changed["pipeline_bubble"] = (
            round_noise(round(idle, 4)),
            f"({pipeline} − 1) / ({a} + {pipeline} − 1)",
        )
    return tuple(_changed(row, changed) for row in step.derivations)


def _changed(row: Derivation, changed: Mapping[str, tuple[PlanValue, str]]) -> Derivation:
    if row.quantity not in changed:
        return row
    value, formula = changed[row.quantity]
    source = "the same global batch" if value == row.value else f"planned {row.value}"
    return Derivation(row.quantity, value, formula, source)

"""Fits the plan of a step to fewer processes: the same global batch and steps, with more accumulation.

The samples of a global batch depend on neither the world size nor the accumulation, so a plan for 64
GPUs walks the same loss curve on two processes, up to the order of floating-point sums.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from worldsize.planning import degrees
from worldsize.planning.derive import planned_inputs
from worldsize.planning.model import StepPlan, Topology, Training
from wstrain.scaling import split_batch


def localise(step: StepPlan, processes: int, *, grow: bool = False, keep_instances: bool = False) -> StepPlan:
    """Fit the plan of a step to one machine; the rows of its table stay those of the spec.

    A training step keeps its global batch ``G`` and its micro-batch ``b``. Its data-parallel size becomes the
    largest divisor of ``G / b`` whose replicas fit ``processes``; accumulation becomes ``G / (b·D′)``. A
    replica keeps its tensor and pipeline degrees if one fits; otherwise they shrink to divisors of
    theirs, which split the same model into fewer parts, down to one process that splits nothing. No other
    quantity changes. A step that does not train gets at most as many processes as were planned.

    Args:
        step: The plan of the step.
        processes: Processes that may run side by side, at least 1.
        grow: Whether a training step may get more processes than planned, taken from its accumulation.
        keep_instances: Whether a step keeps its instances, each with the same number of processes and at
            least one, even if that is more than ``processes``. Otherwise one instance has all, as it has if
            the instances cannot share them equally.
    """
    count = step.topology.instance_count if keep_instances and step.topology.is_distributed else 1
    limit = max(processes, count)
    topology, training = _gather(step, limit, grow=grow)
    while topology.world_size % count:
        limit = min(limit, topology.world_size) - 1
        if limit < count:
            count, limit = 1, processes
        topology, training = _gather(step, limit, grow=grow)
    topology = topology.with_ranks(count, topology.world_size // count)
    inputs = {**step.inputs, **planned_inputs(topology, training)}
    return replace(step, topology=topology, training=training, inputs=inputs)


def _gather(step: StepPlan, processes: int, *, grow: bool) -> tuple[Topology, Training | None]:
    """The topology and training with at most ``processes``, all on one instance."""
    planned, training = step.topology, step.training
    grows = grow and training is not None and planned.is_distributed
    limit = processes if grows else min(processes, planned.world_size)
    tensor, pipeline = degrees.shrink_degrees(
        planned.tensor_parallel_size, planned.pipeline_parallel_size, limit
    )
    whole = planned.splits_model and tensor * pipeline == 1
    data = 1 if whole else limit // (tensor * pipeline)
    if training is not None and not planned.parameter_server_count:  # whose batch is one worker's anyway
        share = training.global_batch_size // training.batch_size_per_device
        if training.gradient_accumulation_steps >= pipeline:
            data = min(data, share // pipeline)  # growing must not leave stages without micro-batches
        data, _ = split_batch(_find_common_share(step, share), data)
        training = replace(training, gradient_accumulation_steps=share // data)
    world = data * tensor * pipeline
    topology = replace(
        planned.with_ranks(1, world),
        worker_count=None if planned.worker_count is None else world,
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
    )
    return topology, training


def _find_common_share(step: StepPlan, share: int) -> int:
    """The largest number of replicas that share the micro-batches of an optimizer step in every trial."""
    trials = step.sweep.trials if step.sweep is not None else ()
    shares = [
        int(trial.inputs["global_batch_size"]) // int(trial.inputs["batch_size_per_device"])
        for trial in trials
    ]
    return math.gcd(share, *shares)

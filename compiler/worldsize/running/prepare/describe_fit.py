"""Says how steps run on this machine where that is not as planned."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from worldsize.base.wording import plural
from worldsize.planning.degrees import Degrees
from worldsize.planning.model import StepPlan, Topology
from worldsize.running.model.task import Task
from worldsize.running.prepare.machine import Machine

_EACH_TRIAL = ", the global batch of each trial unchanged"


def describe_fixed(name: str, step: StepPlan, machine: Machine, processes: int | None) -> Iterator[str]:
    """Describe a step whose command starts its own number of processes."""
    topology, world = step.topology, step.topology.world_size
    if world <= machine.slots if processes is None else world == processes:
        return
    yield (
        f"{name}: `{topology.command_launcher}` starts all {plural(world, 'process')} here too:"
        " its command does not take `${{plan.local_world_size}}` or `${{plan.world_size}}`"
    )


def describe_sharing(here: StepPlan, machine: Machine) -> str:
    """Explain why a step runs with more processes than run at full speed."""
    assert here.training is not None
    processes, slots = plural(here.topology.world_size, "process"), plural(machine.slots, machine.unit)
    return (
        f"all {processes} share {slots}, so this will be slow: its command does not receive"
        " `gradient_accumulation_steps`, and fewer would change its global batch"
        f" of {here.training.global_batch_size}"
    )


def describe_change(before: StepPlan, here: StepPlan, task: Task, followed: frozenset[str]) -> str:
    """Describe a step with another number of processes than planned."""
    planned, world = before.topology, here.topology.world_size
    shape = f"{planned.instance_count} × {_count_ranks(planned)}"
    if planned.splits_model:
        shape = _describe_mesh(planned)
    text = f"planned for {plural(planned.world_size, 'process')} ({shape}), running {world} here"
    if planned.splits_model:
        text += f" ({_describe_mesh(here.topology)})"
    if planned.worker_count is not None and task.worker_count is not None:
        workers = _describe_workers(planned.worker_count, planned.world_size // planned.worker_count)
        text = f"planned for {planned.world_size} replicas ({workers}), running {world} here"
        text += f" ({_describe_workers(task.worker_count, task.gpus_per_process)})"
    elif here.topology.instance_count > 1:
        text += f" ({here.topology.instance_count} × {_count_ranks(here.topology)})"
    if here.training is None:
        return text + (_EACH_TRIAL if task.kind == "sweep" else "")
    return text + _describe_batch(before, here, followed)


def _count_ranks(topology: Topology) -> int:
    """The ranks of an instance."""
    return topology.local_world_size or topology.process_count_per_instance


def _describe_batch(before: StepPlan, here: StepPlan, followed: frozenset[str]) -> str:
    """Describe the global batch with another number of processes than planned."""
    assert before.training is not None
    assert here.training is not None
    accumulation, batch = here.training.gradient_accumulation_steps, here.training.global_batch_size
    changed = accumulation != before.training.gradient_accumulation_steps
    if before.sweep is not None and len(before.sweep.trials) > 1:
        return _EACH_TRIAL
    if "gradient_accumulation_steps" in followed or not changed:
        return f" with accumulation ×{accumulation}, global batch {batch} unchanged"
    if "global_batch_size" in followed:
        return f"; its command receives the global batch {batch}, and has to divide it itself"
    planned, now = before.topology.data_parallel_size, here.topology.data_parallel_size
    taken = Fraction(batch * now, planned)
    rate = " at the learning rate planned for all of them" if "learning_rate" in followed else ""
    return (
        f"; its command does not receive `gradient_accumulation_steps`, so an optimizer step takes"
        f" {round(float(taken), 2):g} of the {batch} planned samples{rate}"
    )


def _describe_workers(count: int, gpus: int) -> str:
    """Describe TensorFlow's workers and their replicas."""
    text = f"{count} worker{'s' if count > 1 else ''}"
    return f"{text} × {gpus} GPUs" if gpus > 1 else text


def _describe_mesh(topology: Topology) -> str:
    """Describe how the ranks split data, layers and depth."""
    return Degrees(
        topology.data_parallel_size, topology.tensor_parallel_size, topology.pipeline_parallel_size
    ).shown()


def describe_unequal(here: StepPlan, processes: int | None) -> str:
    """Explain why a training step does not get the requested processes."""
    if processes is None or here.training is None or here.topology.world_size == processes:
        return ""
    share = here.training.global_batch_size // here.training.batch_size_per_device
    replica = here.topology.world_size // here.topology.data_parallel_size
    if processes % replica:
        return f"; {processes} are not a multiple of the {replica} that hold a model"
    if share % (processes // replica) == 0:
        return (
            f"; more would leave {here.topology.pipeline_parallel_size} stages fewer micro-batches than that"
        )
    sharing = f"{processes // replica} replicas" if replica > 1 else str(processes)
    return f"; {sharing} do not share its {share} micro-batches equally"

"""The plan of steps whose pipeline has no ``plan.json``, read from what the steps are told.

Clients of a workspace send a compiled pipeline without the file beside it. The inputs that a plan filled in
are still there under the names of its quantities, and their product shows that they are a plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.planning.derive import planned_inputs
from worldsize.planning.model import Launcher, Plan, PlanValue, StepPlan, Topology, Training
from worldsize.running.model.task import Task, find_launcher_call

_BATCH, _ACCUMULATION, _GLOBAL = "batch_size_per_device", "gradient_accumulation_steps", "global_batch_size"
# What follows the number of processes; all other inputs of a step stay as they are.
_FOLLOWING = (
    "world_size", "instance_count", "process_count_per_instance", "local_world_size", "worker_count",
    "data_parallel_size", "tensor_parallel_size", "pipeline_parallel_size", _ACCUMULATION, _GLOBAL,
)  # fmt: skip
_LAUNCHERS: Mapping[str, Launcher] = {"pytorch": "pytorch", "tensorflow": "tensorflow", "mpi": "mpi"}


def read_told_plan(tasks: Mapping[str, Task]) -> tuple[Plan, dict[str, dict[str, str]]]:
    """The plan of the steps that are told one, and which of their inputs follow it.

    A step counts if it is told its batch per device and its accumulation steps, and these, the processes
    that it starts, and the global batch and world size, where it is told them, agree. The trials of a sweep
    count if they are told the world size, and derive their accumulation from the processes that they find.
    """
    plans = {name: plan for name, task in tasks.items() if (plan := _read_step(task)) is not None}
    templates = {
        name: {
            quantity: f"${{{{plan.{quantity}}}}}"
            for quantity, value in plan.inputs.items()
            if tasks[name].read_count(quantity) == value
        }
        for name, plan in plans.items()
    }
    return Plan("pipeline", plans), templates


def _read_step(task: Task) -> StepPlan | None:
    topology = _read_topology(task)
    if topology is None:
        return None
    if task.kind == "sweep" and task.read_number(_ACCUMULATION) == 0:
        derives = task.read_count("world_size") == topology.world_size
        return StepPlan(task.name, topology, None, inputs=_follow(topology, None)) if derives else None
    batch, accumulation = task.read_count(_BATCH), task.read_count(_ACCUMULATION)
    if task.kind != "command" or not batch or not accumulation:
        return None
    whole = batch * accumulation * topology.data_parallel_size
    if _differs(task, _GLOBAL, whole) or _differs(task, "world_size", topology.world_size):
        return None
    training = Training(
        optimizer=None,
        batch_size_per_device=batch,
        gradient_accumulation_steps=accumulation,
        global_batch_size=whole,
        reference_batch_size=whole,
        kappa=1.0,
        rule="none",
        reference_learning_rate=0.0,
        learning_rate=0.0,
        epochs=None,
        warmup_epochs=0.0,
        rows=None,
        steps_per_epoch=None,
        total_steps=None,
        warmup_steps=None,
        shard_count=1,
        shards_per_rank=1,
    )
    return StepPlan(task.name, topology, training, inputs=_follow(topology, training))


def _follow(topology: Topology, training: Training | None) -> dict[str, PlanValue]:
    planned = planned_inputs(topology, training)
    return {name: planned[name] for name in _FOLLOWING if name in planned}


def _read_topology(task: Task) -> Topology | None:
    launcher, call = _LAUNCHERS.get(task.launcher), None
    if task.launched_processes > 1:
        call = find_launcher_call(task.command)
    if launcher is None and call is None:
        return None
    world = task.rank_count
    if task.worker_count is not None:  # a replica is a GPU of a worker
        gpus = task.read_count("planned_gpus_per_instance") or 1
        world = task.read_count("world_size") or world * gpus
    tensor = task.read_count("tensor_parallel_size") or 1
    pipeline = task.read_count("pipeline_parallel_size") or 1
    if world % (tensor * pipeline) or world % task.world_size:
        return None
    return Topology(
        launcher=launcher or "none",
        instance_type=None,
        instance_count=task.instance_count,
        gpus_per_instance=None,
        process_count_per_instance=task.process_count_per_instance,
        world_size=world,
        worker_count=task.worker_count,
        parameter_server_count=task.parameter_server_count or None,
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
        local_world_size=None if task.worker_count is not None else world // task.instance_count,
        command_launcher=call.name if call is not None else None,
    )


def _differs(task: Task, name: str, expected: int) -> bool:
    """Whether a step is told another value of a quantity; 0 stands for none."""
    if task.inputs.get(name) is None or task.read_number(name) == 0:
        return False
    return task.read_count(name) != expected

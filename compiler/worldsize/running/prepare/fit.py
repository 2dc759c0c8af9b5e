"""Fits tasks to this machine: fewer processes, more accumulation, the same global batch.

Clients of a workspace send a compiled pipeline without the ``plan.json`` beside it. The inputs that a plan
filled in are still there under the names of its quantities, and their product shows that they are a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import binding, literals
from worldsize.azureml.command_launchers import IN_ALL, NODES, PER_INSTANCE, find_launcher_call
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.planning.degrees import Degrees
from worldsize.planning.derive import planned_inputs
from worldsize.planning.localise import localise
from worldsize.planning.memory.workload import PREDICTION
from worldsize.planning.model import Launcher, Plan, PlanValue, StepPlan, Topology, Training
from worldsize.running.launch.machine import Machine
from worldsize.running.model.task import Source, Task, Text

Templates = Mapping[str, Mapping[str, str]]
MAX_PROCESSES = 1024  # of one step
MAX_PER_CORE = 8  # processes that may share a core if a script needs all of them

VARIABLE = "$"  # prefix of environment variables among the templates


class Room(NamedTuple):
    """What the tasks have to fit."""

    machine: Machine
    processes: int | None  # that the user requests for distributed steps; None for as many as fit
    keep_instances: bool  # whether each instance is emulated as a machine; they share the processes


class FittedTasks(Struct, frozen=True):
    """The tasks as they will run here, notices (one line per step), and problems."""

    tasks: dict[str, Task]
    notices: list[str]
    problems: list[Problem]


def fit_tasks(
    tasks: Mapping[str, Task],
    pipeline: Path,
    compiled: tuple[Plan, Templates] | None,
    machine: Machine,
    processes: int | None,
    *,
    keep_instances: bool = False,
) -> FittedTasks:
    """Fit the tasks of a pipeline.

    Args:
        tasks: Those of the pipeline, by name.
        pipeline: Its file.
        compiled: The plan of the spec that it was compiled from, and which inputs follow it.
        machine: This machine.
        processes: The number that the user requests for distributed steps; None for as many as fit.
        keep_instances: Whether a step keeps its instances, because each is emulated as a machine; they share
            the processes equally, at least one each.
    """
    at, room = Span(str(pipeline), 1, 1, 1, 1), Room(machine, processes, keep_instances)
    if keep_instances and processes is not None:
        unequal = list(_report_indivisible(tasks, processes, at))
        if unequal:
            return FittedTasks(dict(tasks), [], unequal)
    if compiled is not None:
        fitted = _fit_planned(tasks, room, *compiled)
    else:  # the steps that are told a plan follow it, the others stay
        plan, templates = reconstruct_plan(tasks)
        following = {name: task for name, task in tasks.items() if name in plan.steps}
        others = {name: task for name, task in tasks.items() if name not in plan.steps}
        planned, fitted = _fit_planned(following, room, plan, templates), _fit_native(others, room, at)
        both = planned.tasks | fitted.tasks
        ordered = {name: both[name] for name in tasks}
        fitted = FittedTasks(ordered, planned.notices + fitted.notices, fitted.problems)
    return fitted if fitted.problems else replace(fitted, problems=list(_report_too_many(fitted.tasks, at)))


def _report_indivisible(tasks: Mapping[str, Task], processes: int, at: Span) -> Iterator[Problem]:
    """Report steps whose instances cannot share the requested processes equally."""
    for name, task in tasks.items():
        count = task.instance_count
        if task.launcher != "none" and task.launched_processes == 1 and processes % count:
            message = f"`--processes {processes}` is not a multiple of the {count} instances of step `{name}`"
            nearest = max(1, processes // count) * count
            yield Problem("run-refused", at, message, f"say `--processes {nearest}`, or leave it out")


def _report_too_many(tasks: Mapping[str, Task], at: Span) -> Iterator[Problem]:
    """Report steps with too many processes for any machine's memory or process ids."""
    for name, task in tasks.items():
        count = task.rank_count + task.parameter_server_count
        if count > MAX_PROCESSES:
            message = (
                f"step `{name}` starts {count} processes, and one machine is given {MAX_PROCESSES} at most"
            )
            servers = task.parameter_server_count > MAX_PROCESSES
            help_ = "write a smaller `parameter_server_count`" if servers else _say_fewer(task, 2)
            yield Problem("run-refused", at, message, help_)


def _say_fewer(task: Task, most: int) -> str:
    """How a step starts fewer processes: by its file, as a client of a workspace has it, or by an option."""
    if task.launched_processes > 1:
        return f"let its command start {most} at most"
    key = "worker_count" if task.worker_count is not None else "process_count_per_instance"
    option = f"`worldsize run --processes {most}` leaves the file as it is"
    return f"write a smaller `{key}`, for {most} in all; {option}"


def _fit_planned(tasks: Mapping[str, Task], room: Room, plan: Plan, templates: Templates) -> FittedTasks:
    names = plan.steps.keys() & tasks.keys()
    followed = {name: find_followed_quantities(tasks[name], templates.get(name, {}), plan) for name in names}
    fixed = {name: find_fixed_counts(task, templates.get(name, {})) for name, task in tasks.items()}
    steps = {
        name: _fit_step(before, fixed.get(name, FixedCounts()), followed.get(name, frozenset()), room)
        for name, before in plan.steps.items()
    }
    fitted = Plan(plan.name, steps)
    refilled: dict[str, Task] = {}
    notices: list[str] = []
    for name, task in tasks.items():
        refilled[name] = refill_plan(task, templates.get(name, {}), plan, fitted)
        step, before = fitted.steps.get(name), plan.steps.get(name)
        if step is None or before is None or not before.topology.is_distributed:
            continue
        refilled[name] = _shape_task(refilled[name], step.topology, room)
        unequal = describe_unequal(step, room.processes)
        if fixed[name].ranks:
            notices += describe_fixed(name, before, room)
        elif step.topology.world_size != before.topology.world_size or unequal:
            notices.append(
                f"{name}: {describe_change(before, step, refilled[name], followed[name])}{unequal}"
            )
        elif step.training is not None and step.topology.world_size > room.machine.slots:
            notices.append(f"{name}: {describe_sharing(step, room.machine)}")
        if room.keep_instances and step.topology.instance_count < before.topology.instance_count:
            count = before.topology.instance_count
            notices.append(f"{name}: its {count} instances cannot share it equally, so it runs without nodes")
    return FittedTasks(refilled, notices, [])


def _shape_task(task: Task, here: Topology, room: Room) -> Task:
    """The task with the processes of a plan for this machine.

    One instance has all ranks, as Azure ML would do too, unless instances are kept. A TensorFlow worker is an
    instance: without GPUs each replica is a worker; with GPUs as many of the planned workers remain as can
    share the replicas equally. If instances are kept, they share the workers.
    """
    if task.worker_count is None:
        per_instance = here.process_count_per_instance
        return replace(task, instance_count=here.instance_count, process_count_per_instance=per_instance)
    replicas, workers = here.world_size, here.world_size
    if room.machine.gpus:
        workers = max(
            count for count in range(1, min(replicas, task.worker_count) + 1) if not replicas % count
        )
    instances = min(here.instance_count, workers) if room.keep_instances else workers
    return replace(task, instance_count=instances, worker_count=workers, gpus_per_process=replicas // workers)


def _fit_step(before: StepPlan, fixed: FixedCounts, followed: frozenset[str], room: Room) -> StepPlan:
    """The plan of a step for this machine, with the processes and instances that its command has anyway.

    A step that cannot keep its global batch otherwise has all planned processes: cores can be shared and GPUs
    cannot, and memory limits the number of processes.
    """
    machine, processes, keep_instances = room
    keep = keep_instances or fixed.nodes

    def fit(count: int) -> StepPlan:
        one = Plan("", {before.step: before})
        return localise(one, count, grow=processes is not None, keep_instances=keep).steps[before.step]

    here = before if fixed.ranks else fit(processes or machine.slots)
    world, most = before.topology.world_size, machine.slots * (1 if machine.gpus else MAX_PER_CORE)
    if processes is None and world <= most and not _keeps_global_batch(before, here, followed):
        return fit(world)
    return here


def _keeps_global_batch(before: StepPlan, here: StepPlan, followed: frozenset[str]) -> bool:
    """Whether the command can keep the planned global batch with the processes of this machine.

    It has to receive the accumulation, or the global batch, which it then divides itself.
    """
    if before.training is None or here.training is None:
        return True
    planned, fitted = before.training.gradient_accumulation_steps, here.training.gradient_accumulation_steps
    return planned == fitted or bool(followed & {"gradient_accumulation_steps", "global_batch_size"})


def _fit_native(tasks: Mapping[str, Task], room: Room, at: Span) -> FittedTasks:
    """Keep the world size unless ``processes`` is given: without a plan its use in a script is unknown."""
    machine, processes, keep_instances = room
    fitted = FittedTasks({}, [], [])
    for name, planned in tasks.items():
        task = planned
        if processes is not None and planned.launched_processes > 1 and planned.rank_count != processes:
            fitted.notices.append(
                f"{name}: its command starts {plural(planned.rank_count, 'process')} itself, not {processes}"
            )
        elif processes is not None and planned.launcher != "none" and planned.launched_processes == 1:
            task = _set_processes(planned, processes, planned.instance_count if keep_instances else 1)
            if task.world_size != planned.world_size:
                counts = f"{plural(task.world_size, 'process')} instead of {planned.world_size}"
                fitted.notices.append(
                    f"{name}: {counts}; a fixed batch for each process gives another global batch"
                )
        fitted.tasks[name] = task
        fitted.notices.extend(_describe_uneven_workers(task))
        if task.rank_count <= max(machine.slots, 1) or (task.launcher == "none" and task.rank_count == 1):
            continue
        count, slots = task.rank_count, plural(machine.slots, machine.unit)
        if machine.gpus:
            message = f"step `{name}` starts {count} processes, one a GPU, but this machine has {slots}"
            fitted.problems.append(Problem("run-refused", at, message, _say_fewer(task, machine.slots)))
        else:
            fewer = task.launched_processes == 1 and task.launcher != "none" and not keep_instances
            advice = f": `worldsize run --processes {max(machine.slots, 1)}` starts fewer" if fewer else ""
            fitted.notices.append(f"{name}: {count} processes share {slots}, so this will be slow{advice}")
    return fitted


def _set_processes(task: Task, processes: int, instances: int) -> Task:
    """Set the processes of a task; a TensorFlow worker is an instance, unless several are kept."""
    if task.worker_count is not None:
        kept = instances if instances > 1 else processes
        return replace(task, instance_count=kept, worker_count=processes)
    return replace(task, instance_count=instances, process_count_per_instance=processes // instances)


def _describe_uneven_workers(task: Task) -> Iterator[str]:
    """Describe what happens if the numbers of workers and instances differ."""
    workers, instances = task.worker_count, task.instance_count
    if workers is None or workers == instances:
        return
    counts = f"{task.name}: `worker_count` is {workers} but `instance_count` is {instances}"
    if workers > instances:
        yield f"{counts}: {workers} workers are started, and share instances and their GPUs"
    elif workers + task.parameter_server_count < instances:
        idle = instances - workers - task.parameter_server_count
        yield f"{counts}: {idle} instance{'s' if idle > 1 else ''} would cost money and run nothing"


def find_followed_quantities(task: Task, templates: Mapping[str, str], plan: Plan) -> frozenset[str]:
    """The quantities of the plan that the command of a task receives.

    An input counts if the command names it, and a variable always counts, unless its value was changed by
    hand since compiling.
    """

    def list_ports(text: str, scope: str) -> set[str]:
        return {part.port or "" for part in binding.find_expressions(text) if part.scope == scope}

    named = list_ports(task.command, "inputs")
    followed: set[str] = set()
    for name, template in templates.items():
        if (name.startswith(VARIABLE) or name in named) and _follows(task, name, template, plan):
            followed |= list_ports(template, "plan")
    for name in ("gradient_accumulation_steps", "global_batch_size") if task.kind == "sweep" else ():
        if task.read_number(name) == 0:  # trials derive it for the processes that they find
            followed.add(name)
    return frozenset(followed)


def refill_plan(task: Task, templates: Mapping[str, str], plan: Plan, fitted: Plan) -> Task:
    """Set the inputs and variables that follow the plan to their values for this number of processes."""
    inputs: dict[str, Source | None] = dict(task.inputs)
    variables = dict(task.environment_variables)
    for name, template in templates.items():
        here = _fill(template, fitted, task.name)
        if here is None or not _follows(task, name, template, plan):
            continue
        if name.startswith(VARIABLE):
            variables[name.removeprefix(VARIABLE)] = literals.render_literal(here)
        else:
            inputs[name] = Text(here)
    if PREDICTION in inputs and plan.steps[task.name].topology != fitted.steps[task.name].topology:
        inputs[PREDICTION] = None  # the prediction is for another number of processes
    return replace(task, inputs=inputs, environment_variables=variables)


def _follows(task: Task, name: str, template: str, plan: Plan) -> bool:
    """Whether a value is still that of the plan, and not changed by hand since compiling."""
    planned = _fill(template, plan, task.name)
    if planned is None:
        return False
    if name.startswith(VARIABLE):
        return task.environment_variables.get(name.removeprefix(VARIABLE)) == literals.render_literal(planned)
    source = task.inputs.get(name)
    return isinstance(source, Text) and source.rendered == literals.render_literal(planned)


def _fill(template: str, plan: Plan, step: str) -> PlanValue | None:
    whole = binding.parse_expression(template)
    if whole is not None:
        return _find_quantity(plan, step, whole.port or "")
    text = template
    for expression in reversed(binding.find_expressions(template)):
        value: PlanValue | None = str(expression)
        if expression.scope == "plan":
            value = _find_quantity(plan, step, expression.port or "")
        if value is None:
            return None
        text = text[: expression.start] + literals.render_literal(value) + text[expression.end :]
    return text


def _find_quantity(plan: Plan, step: str, name: str) -> PlanValue | None:
    """A step's own quantity, else that of the only training step, as in the compiler."""
    planned = plan.steps.get(step)
    if planned is not None and name in planned.inputs:
        return planned.inputs[name]
    values = [other.inputs[name] for other in plan.steps.values() if other.training and name in other.inputs]
    return values[0] if len(values) == 1 else None


_COUNTS_NODES = re.compile(r"\$\{?(?:AZUREML_NODE_COUNT|WORLD_SIZE)\}?")  # of Azure ML, for one process each


class FixedCounts(NamedTuple):
    """What a command says itself, whatever the plan is."""

    ranks: bool = False
    nodes: bool = False


def find_fixed_counts(task: Task, templates: Mapping[str, str]) -> FixedCounts:
    """Whether the launcher of a command has its own number of processes, or of nodes."""
    call = find_launcher_call(task.command)
    if call is None:
        return FixedCounts()

    def follows(text: str) -> bool:
        expression = binding.parse_expression(text)
        return expression is not None and expression.scope == "inputs" and expression.port in templates

    ranks = call.find_value((*PER_INSTANCE, *IN_ALL))
    nodes = call.find_value(NODES)
    fixed_nodes = (
        nodes is not None and not follows(nodes[1].bare) and not _COUNTS_NODES.fullmatch(nodes[1].bare)
    )
    return FixedCounts(ranks is None or not follows(ranks[1].bare), fixed_nodes and task.instance_count > 1)


_EACH_TRIAL = ", the global batch of each trial unchanged"


def describe_fixed(name: str, step: StepPlan, room: Room) -> Iterator[str]:
    """Describe a step whose command starts its own number of processes."""
    topology, world = step.topology, step.topology.world_size
    if world <= room.machine.slots if room.processes is None else world == room.processes:
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
    return topology.local_world_size or topology.process_count_per_instance


def _describe_batch(before: StepPlan, here: StepPlan, followed: frozenset[str]) -> str:
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
    text = f"{count} worker{'s' if count > 1 else ''}"
    return f"{text} × {gpus} GPUs" if gpus > 1 else text


def _describe_mesh(topology: Topology) -> str:
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


_BATCH, _ACCUMULATION, _GLOBAL = "batch_size_per_device", "gradient_accumulation_steps", "global_batch_size"
# What follows the number of processes; all other inputs of a step stay as they are.
_FOLLOWING = (
    "world_size", "instance_count", "process_count_per_instance", "local_world_size", "worker_count",
    "data_parallel_size", "tensor_parallel_size", "pipeline_parallel_size", _ACCUMULATION, _GLOBAL,
)  # fmt: skip
_LAUNCHERS: Mapping[str, Launcher] = {"pytorch": "pytorch", "tensorflow": "tensorflow", "mpi": "mpi"}


def reconstruct_plan(tasks: Mapping[str, Task]) -> tuple[Plan, dict[str, dict[str, str]]]:
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

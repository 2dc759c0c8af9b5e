"""Ray Train: one process starts the workers, so Azure ML must not; Ray has to know other instances."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.launch import STARTS_PROCESSES
from worldsize.azureml.model import AZURE_ML
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Problem, relate
from worldsize.base.wording import plural
from worldsize.facts.library_calls import list_last_names
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import list_backward_calls
from worldsize.scripts.module import Module, constant_value, find_mentions, find_passed, keyword_argument
from worldsize.scripts.program import Program, is_known_package
from worldsize.scripts.settings import find_place, read_number
from worldsize.scripts.values import open_variable

_TRAINERS = ("ray.train.torch.TorchTrainer", "ray.train.torch.torch_trainer.TorchTrainer")
_SCALING = ("ray.train.ScalingConfig", "ray.air.ScalingConfig", "ray.air.config.ScalingConfig")
# What makes the workers train one model; whatever else is called with the model is not known.
_PREPARES = (
    "prepare_model", "prepare_trainer", "RayDDPStrategy", "RayFSDPStrategy", "RayDeepSpeedStrategy",
    "Accelerator", "initialize", "parallelize_module", "distribute_module", "all_reduce",
    "DistributedOptimizer", "average_parameters",
)  # fmt: skip


def check_program(context: Tree, program: Program) -> Iterator[Problem]:
    if not program.imports("ray"):
        return
    runs = read_reached(program).runs
    trainers = ((module, call) for module, call in program.called("TorchTrainer") if runs(module, call))
    place = next((at for at in trainers if at[0].name_of(at[1].func) in _TRAINERS), None)
    if place is None:
        return
    module, trainer = place
    launch = program.launch
    # Several processes of Azure ML would each start all workers: what follows is about one process.
    repeated = launch.kind in STARTS_PROCESSES and (launch.processes.value or 1) > 1
    if repeated:
        yield from _report_repeated(program, module, trainer)
    else:
        yield from _judge_instances(program, module, trainer)
        yield from _judge_workers(program, module, trainer)
    yield from _judge_model(program, module, trainer)


def _report_repeated(program: Program, module: Module, trainer: ast.Call) -> Iterator[Problem]:
    launch = program.launch
    who = plural(launch.processes.value or 1, "process")
    message = f"{who} of each instance run this, and each starts a Ray cluster and all its workers"
    help_ = "remove `distribution`: one process starts the workers"
    related = (*relate(launch.processes.span or launch.kind_span, who), *program.related)
    yield Problem("ray-workers-disagree", module.span(trainer.func), message, help_, related=related)


def _judge_instances(program: Program, module: Module, trainer: ast.Call) -> Iterator[Problem]:
    """Report instances that do not join the cluster of the first."""
    launch = program.launch
    count = launch.instances.value or 1
    if count < 2 or launch.kind not in STARTS_PROCESSES or _joins_cluster(program):
        return  # without `distribution` another rule says that one instance runs the command
    message = f"the job has {plural(count, 'instance')}, but nothing joins them to one Ray cluster"
    by_type = "write `distribution: {type: ray}`, or " if launch.job.keys is AZURE_ML else ""
    help_ = f"{by_type}use one instance, or `ray start --address` in the command of the others"
    related = (*relate(launch.instances.span, plural(count, "instance")), *program.related)
    yield Problem("ray-instances-not-joined", module.span(trainer.func), message, help_, related=related)


def _joins_cluster(program: Program) -> bool:
    """Whether a command or the script may start or join a cluster of several instances."""
    words = [word.text for command in program.launch.commands for word in command.words]
    in_command = any(word.strip("();").rpartition("/")[2] == "ray" or word.endswith(".sh") for word in words)
    return in_command or program.says("ray start", "address=", "RAY_ADDRESS", "subprocess", "os.system")


def _judge_workers(program: Program, module: Module, trainer: ast.Call) -> Iterator[Problem]:
    """Report more workers with a GPU than the instances have GPUs: Ray then never starts the training."""
    scaling = _find_scaling(module, trainer)
    size, instances = program.launch.size, program.launch.instances.value
    node = keyword_argument(scaling, "num_workers") if scaling is not None else None
    if scaling is None or node is None or size is None or instances is None or size.devices < 1:
        return
    if any(one.arg in (None, "resources_per_worker") for one in scaling.keywords):
        return
    workers = read_number(program, module, node)
    gpus = size.devices * instances
    if workers is None or workers <= gpus or constant_value(keyword_argument(scaling, "use_gpu")) is not True:
        return
    message = f"`num_workers` is {workers} with a GPU each, but the job has {plural(gpus, 'GPU')}"
    help_ = f"write `num_workers={gpus}`: Ray waits for GPUs that never come"
    related = (*relate(program.launch.chosen_size_span, size.name), *program.related)
    yield Problem("ray-workers-disagree", find_place(program, module, node), message, help_, related=related)


def _knows_imports(program: Program) -> bool:
    """Whether no other package than Ray can train or wrap the model."""
    return all(
        level > 0 or is_known_package(name, level) or name.partition(".")[0] in {"ray", *program.names_beside}
        for module in program.modules
        for name, level, _ in module.imports
    )


def _find_scaling(module: Module, trainer: ast.Call) -> ast.Call | None:
    """The configuration of the workers: written in the call, or a name that is bound once."""
    node = open_variable(module, keyword_argument(trainer, "scaling_config"))
    return node if isinstance(node, ast.Call) and module.name_of(node.func) in _SCALING else None


def _judge_model(program: Program, module: Module, trainer: ast.Call) -> Iterator[Problem]:
    """Report workers whose models are not synchronized."""
    scaling = _find_scaling(module, trainer)
    node = keyword_argument(scaling, "num_workers") if scaling is not None else None
    workers = read_number(program, module, node) if node is not None else None
    loop = find_passed(trainer, 0, "train_loop_per_worker")
    if workers is None or workers < 2 or not isinstance(loop, ast.Name) or not _knows_imports(program):
        return
    trains = any(list_backward_calls(other) for other in program.modules)
    prepares = program.refers(*_PREPARES, *list_last_names("wraps_model"))
    if not trains or prepares or not program.refers("step"):
        return
    defined = [function for function in module.kinds.get(ast.FunctionDef, ()) if function.name == loop.id]
    if len(defined) != 1 or "backward" not in set(find_mentions(defined[0])):
        return
    who = plural(workers, "worker")
    message = f"{who} train here, but nothing averages their gradients: each has its own model"
    help_ = "write `model = ray.train.torch.prepare_model(model)`"
    yield Problem(
        "ray-model-not-prepared", module.span(trainer.func), message, help_, related=program.related
    )

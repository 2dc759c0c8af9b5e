"""What depends on the number of processes: gradients, weights and losses to average, and rates to scale."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.base.wording import plural
from worldsize.facts.library_calls import list_last_names
from worldsize.scripts.bindings import find_scope
from worldsize.scripts.edits import call_horovod_init
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import find_assigned, find_loop, list_backward_calls, list_prepared
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    find_passed,
    keyword_argument,
    last_name,
    name_variable,
)
from worldsize.scripts.program import Program
from worldsize.scripts.values import find_values

_OTHER_WAYS = ("rpc", "ring_attention", "smp", "fairscale", "apex")  # modules and functions of others
_METRIC = re.compile(
    r"loss|acc|correct|total|count|metric|score|num|stat|seen|mean|avg|average|val|err|hit|sample|sum|time|log|pred"
    r"|tensor|torch|device|item|detach|clone|cuda|float|dist|ReduceOp|op|AVG|SUM|\d",
    re.IGNORECASE,
)
_ASKED_OF_WRAPPED = (
    "parameters", "named_parameters", "train", "eval", "module", "state_dict", "load_state_dict", "zero_grad",
)  # fmt: skip
_WEIGHTS = re.compile(r"grad|param|weight|flat|bucket|buffer|state_dict", re.IGNORECASE)


def check_gradients_never_averaged(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes < 2:
        return
    if program.imports("accelerate"):
        yield from _judge_accelerate(program)
    elif program.complete and program.imports("horovod"):
        yield from _judge_horovod(program)
    elif program.complete and program.imports("torch"):
        yield from _judge_torch(program)
    elif program.complete and program.imports("tensorflow", "keras"):
        yield from _judge_tensorflow(program)


def _judge_torch(program: Program) -> Iterator[Finding]:
    if program.refers(*list_last_names("averages_torch"), *_OTHER_WAYS):
        yield from _judge_wrapped(program)
        return
    if not program.refers("init_process_group") or not _is_torch_training(program):
        return
    if not all(_reduces_metrics_only(module) for module in program.modules):
        return
    for module, call in program.called("init_process_group")[:1]:
        help_ = "wrap the model: `model = DistributedDataParallel(model, device_ids=[local_rank])`"
        yield _report(program, module, call, help_)


def _judge_wrapped(program: Program) -> Iterator[Finding]:
    """A model is wrapped under another name, and the loop calls the one inside."""
    for module in program.modules:
        loops = {find_loop(module, call) for call in list_backward_calls(module)} - {None}
        for wrapped, _, call in find_assigned(module, "DistributedDataParallel") if loops else ():
            inner = call.args[0] if call.args else None
            plain = inner.id if isinstance(inner, ast.Name) else wrapped
            made = [use for use in module.stores(plain) if isinstance(use.ctx, ast.Store)]
            called = [call for _, call in module.callers.get(plain, ()) if find_loop(module, call) in loops]
            if plain == wrapped or not made or not called or _may_be_called(module, wrapped):
                continue
            if max(use.lineno for use in made) > call.lineno:
                continue
            if any(find_scope(module, use) is not find_scope(module, call) for use in (*made, *called)):
                continue
            why = f"the loop calls `{plain}`, and never `{wrapped}`, which averages the gradients"
            yield _report(program, module, called[0], f"write `{wrapped}(…)`", why)
            return


def _may_be_called(module: Module, name: str) -> bool:
    """Whether a variable is used in any way but for its attributes."""
    uses = [node for node in module.kinds.get(ast.Name, ()) if node.id == name]
    return any(
        isinstance(node.ctx, ast.Load)
        and not (
            isinstance(above := module.parents.get(node), ast.Attribute) and above.attr in _ASKED_OF_WRAPPED
        )
        for node in uses
    )


def _report(program: Program, module: Module, node: ast.AST, help_: str, why: str = "") -> Finding:
    who = plural(program.processes, "process")
    message = f"{who} train here, but {why or 'nothing averages their gradients'}: each has its own model"
    return Finding(module.span(node), message, help_, related=program.related)


def _is_torch_training(program: Program) -> bool:
    return any(list_backward_calls(module) for module in program.modules) and program.refers("step")


def _reduces_metrics_only(module: Module) -> bool:
    """Whether what is exchanged between the processes is surely neither gradients nor weights."""
    if any(
        _WEIGHTS.search(word)
        for call in module.called(*(f"distributed.{name}" for name in list_last_names("hands_out")))
        for argument in call.args[:2]
        for word in find_mentions(argument)
    ):
        return False
    return all(
        call.args
        and not any(_WEIGHTS.search(word) for word in find_mentions(call.args[0]))
        and all(_METRIC.search(word) for word in find_mentions(call.args[0]))
        for call in module.called(*(f"distributed.{name}" for name in list_last_names("sums", "collects")))
    )


def _judge_horovod(program: Program) -> Iterator[Finding]:
    trains = _is_torch_training(program) or program.refers("fit", "GradientTape", "apply_gradients")
    if program.refers(*list_last_names("averages_horovod")) or not trains:
        return
    for module, call in _list_horovod_calls(program, "init")[:1]:
        yield _report(program, module, call, "write `optimizer = hvd.DistributedOptimizer(optimizer)`")


def _list_horovod_calls(program: Program, *functions: str) -> list[tuple[Module, ast.Call]]:
    calls = program.called(*functions)
    return [(module, call) for module, call in calls if module.name_of(call.func).startswith("horovod.")]


def _judge_tensorflow(program: Program) -> Iterator[Finding]:
    if program.refers(*list_last_names("averages_tensorflow"), "distribution") or not program.refers(
        "fit", "GradientTape", "train_on_batch"
    ):
        return
    help_ = "write `tf.distribute.MultiWorkerMirroredStrategy()`, which joins all workers"
    mirrored = program.called("MirroredStrategy")
    why = "`MirroredStrategy` joins only the GPUs of one process" if mirrored else ""
    for module, call in (mirrored or program.called("fit", "GradientTape", "train_on_batch"))[:1]:
        yield _report(program, module, call, help_, why)


def _judge_accelerate(program: Program) -> Iterator[Finding]:
    """Accelerate averages the gradients of those models only that it has prepared."""
    calls = [(module, call) for module in program.modules for _, call in module.callers.get("prepare", ())]
    prepared = list_prepared(program.modules)
    if not calls or prepared is None or program.refers("prepare_model"):
        return
    for module in program.modules:
        backward = [call for _, call in module.callers.get("backward", ()) if call.args]
        makers = [name for name, _ in module.calls if ".optim." in name and "lr_scheduler" not in name]
        for _, _, call in find_assigned(module, *(makers or ["torch.optim.SGD"])):
            model = _find_model(call)
            if not model or model in prepared or not backward or program.says(f"{model}.prepare"):
                continue
            why = f"`accelerator.prepare` is not given `{model}`, whose gradients it then does not average"
            yield _report(program, *calls[0], f"add `{model}` to `accelerator.prepare(…)`", why)
            return


def _find_model(call: ast.Call) -> str:
    """``model`` of ``torch.optim.AdamW(model.parameters())``."""
    function = call.args[0].func if call.args and isinstance(call.args[0], ast.Call) else None
    if not isinstance(function, ast.Attribute) or function.attr != "parameters":
        return ""
    return name_variable(function.value)


_NEEDS_INIT = ("rank", "local_rank", "size", "DistributedOptimizer", "broadcast_parameters", "allreduce")


def check_horovod_without_init(context: Tree, program: Program) -> Iterator[Finding]:
    if not program.complete or program.says(".init("):
        return
    for module, call in _list_horovod_calls(program, *_NEEDS_INIT)[:1]:
        message = f"`{last_name(call)}` is called without `hvd.init()`"
        fix = call_horovod_init(module)
        yield Finding(module.span(call), message, "call `hvd.init()` first", related=program.related, fix=fix)


def check_horovod_without_broadcast(context: Tree, program: Program) -> Iterator[Finding]:
    if not program.complete or program.says("roadcast", "elastic"):
        return
    for module, call in _list_horovod_calls(program, "DistributedOptimizer")[:1]:
        message = "gradients are averaged, but the ranks' weights are never made equal"
        help_ = "call `hvd.broadcast_parameters(model.state_dict(), root_rank=0)` before training"
        yield Finding(module.span(call), message, help_, related=program.related)


# By name the place of `weight` among the arguments. Other losses of PyTorch are divided by the rows.
_LOSSES = {
    "torch.nn.CrossEntropyLoss": 0, "torch.nn.NLLLoss": 0, "torch.nn.NLLLoss2d": 0,
    "torch.nn.functional.cross_entropy": 2, "torch.nn.functional.nll_loss": 2,
}  # fmt: skip


def check_loss_divided_by_weights(context: Tree, program: Program) -> Iterator[Finding]:
    averages = program.refers(*list_last_names("wraps_model"), "DistributedOptimizer", "Accelerator")
    if program.processes < 2 or not (averages or program.imports("deepspeed")):
        return
    if not any(list_backward_calls(module) for module in program.modules):
        return
    for module in program.modules:
        for name, call in module.calls:
            place = _LOSSES.get(name.replace("torch.nn.modules.loss.", "torch.nn."))
            weight = None if place is None else find_passed(call, place, "weight")
            if weight is None or not _is_mean(call) or not read_reached(program).runs(module, call):
                continue
            if _is_set(program, module, weight):
                message = (
                    "this mean is divided by the weights of one process's rows: the average of its gradients"
                    " over processes is not that of the global batch"
                )
                help_ = 'write `reduction="sum"`, and divide the loss by the number of rows'
                yield Finding(module.span(weight), message, help_, related=program.related)


def _is_mean(call: ast.Call) -> bool:
    """Whether a loss is surely the mean, by default or by its name; older arguments say it otherwise."""
    reduction, older = keyword_argument(call, "reduction"), ("size_average", "reduce")
    plain = not any(keyword_argument(call, name) for name in older) and all(
        keyword.arg for keyword in call.keywords
    )
    return plain and (reduction is None or constant_value(reduction) == "mean")


def _is_set(program: Program, module: Module, weight: ast.expr) -> bool:
    """Whether there is a weight whatever is passed on."""
    if isinstance(weight, ast.Starred):
        return False
    values = [value for _, value in find_values(read_reached(program), module, weight)]
    if isinstance(weight, ast.Name | ast.Attribute) and not values:
        return False
    return not any(isinstance(value, ast.Module | ast.Constant) for value in (weight, *values))


_SIZES = {"size", "get_world_size", "world_size", "WORLD_SIZE"}
_RATE = re.compile(r"(?:^|_)lr(?:_|$)|learning_rate", re.IGNORECASE)


def check_learning_rate_scaled_twice(context: Tree, program: Program) -> Iterator[Finding]:
    if not _planned(program):
        return
    for module, node in program.find(_products):
        message = "the plan has scaled the learning rate, and it is multiplied by the world size here"
        help_ = "use it as it is given, or pass `${{plan.reference_learning_rate}}`"
        yield Finding(module.span(node), message, help_, related=program.related)


def _products(module: Module) -> list[ast.BinOp]:
    """Where something that is a learning rate is multiplied by something that is a number of processes."""
    sizes = module.holding(_SIZES.__contains__)
    rates = module.holding(_RATE.search) if sizes else set()
    return [
        node
        for node in module.kinds.get(ast.BinOp, ())
        if isinstance(node.op, ast.Mult)
        and ((node.left in rates and node.right in sizes) or (node.right in rates and node.left in sizes))
    ]


def _planned(program: Program) -> bool:
    """Whether the plan gives the script its learning rate."""
    arguments = program.launch.step.inputs
    return any(
        name in arguments and arguments[name].comment for name in ("learning_rate", "plan_learning_rate")
    )

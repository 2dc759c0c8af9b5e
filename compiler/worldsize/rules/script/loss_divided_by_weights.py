"""The mean of a loss with weights of classes, which is divided by the weights of one process's rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import list_backward_calls
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.values import find_values

# By name the place of `weight` among the arguments. Other losses of PyTorch are divided by the rows.
_LOSSES = {
    "torch.nn.CrossEntropyLoss": 0, "torch.nn.NLLLoss": 0, "torch.nn.NLLLoss2d": 0,
    "torch.nn.functional.cross_entropy": 2, "torch.nn.functional.nll_loss": 2,
}  # fmt: skip
_AVERAGES = (
    *("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"),
    *("DistributedOptimizer", "Accelerator"),
)


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.processes < 2 or not (program.refers(*_AVERAGES) or program.imports("deepspeed")):
        return
    if not any(list_backward_calls(module) for module in program.modules):
        return
    for module in program.modules:
        for name, call in module.calls:
            place = _LOSSES.get(name.replace("torch.nn.modules.loss.", "torch.nn."))
            weight = None if place is None else _find_weight(call, place)
            if weight is None or not _is_mean(call) or not read_reached(program).runs(module, call):
                continue
            if _is_set(program, module, weight):
                message = (
                    "this mean is divided by the weights of one process's rows: the average of its gradients"
                    " over processes is not that of the global batch"
                )
                help_ = 'write `reduction="sum"`, and divide the loss by the number of rows'
                yield Finding(module.span(weight), message, help_, related=program.related)


def _find_weight(call: ast.Call, place: int) -> ast.expr | None:
    return keyword_argument(call, "weight") or next(iter(call.args[place : place + 1]), None)


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

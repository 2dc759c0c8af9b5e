"""A loss that is a sum over rows: `DistributedDataParallel` averages gradients, and has to add these up."""

from __future__ import annotations

import ast

from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.adopting.training.profile import find_optimizer_name
from worldsize.adopting.training.search import Training
from worldsize.scripts.bindings import Scope
from worldsize.scripts.module import constant_value, keyword_argument

_REASON = "the gradients are averaged, and this loss is a sum over the rows of all processes"
_DEPTH = 10


def add_up_sums(script: Script, tracer: Tracer, training: Training, header: Header) -> None:
    """Multiply a loss that is a sum over rows by the number of processes.

    Raises:
        AdoptError: The loss adds a sum and a mean, which no common factor keeps.
    """
    assert isinstance(training.backward.func, ast.Attribute)
    loss = training.backward.func.value
    scaled = isinstance(loss, ast.Call) and script.module.name_of(loss.func).endswith("scale")
    if isinstance(loss, ast.Call) and scaled and loss.args:
        loss = loss.args[0]
    kinds = _judge(script, tracer, loss, script.scope(loss), _DEPTH)
    if "sum" not in kinds and kinds != {"added"}:
        return
    if "mean" in kinds:
        help_ = "use the same `reduction` for all of its parts: a mean needs no change"
        raise script.refuse(loss, "this loss adds a sum over the rows and a mean over them", help_)
    product = f"{script.written(loss)} * {header.names.world_size}"
    atom = isinstance(loss, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    text = product if atom else f"({script.written(loss)}) * {header.names.world_size}"
    script.replace(loss, text if scaled else f"({text})", None, _REASON)
    if find_optimizer_name(script.module) == "sgd":
        message = "this loss is a sum over rows: its gradients grow with the batch, as the planned rate does"
        script.leave(loss, message, 'take the mean, `reduction="mean"`, and find its learning rate')


def _judge(script: Script, tracer: Tracer, node: ast.expr, scope: Scope, depth: int) -> set[str]:
    """How the parts of a loss are reduced: `sum`, `added` by a call of `sum`, `mean`, or `other`."""
    if not depth or isinstance(node, ast.Constant):
        return set()
    if isinstance(node, ast.UnaryOp):
        return _judge(script, tracer, node.operand, scope, depth - 1)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Div) and not _is_number(tracer, node.right, scope):
            return {"mean"}
        left = _judge(script, tracer, node.left, scope, depth - 1)
        return left | (
            set() if isinstance(node.op, ast.Div) else _judge_factor(script, tracer, node, scope, depth)
        )
    if isinstance(node, ast.Call):
        return _judge_call(script, tracer, node, depth)
    value, where = tracer.follow(node, scope, 1)
    return {"other"} if value is node else _judge(script, tracer, value, where, depth - 1)


def _judge_factor(script: Script, tracer: Tracer, node: ast.BinOp, scope: Scope, depth: int) -> set[str]:
    """The second part of a sum or a product; the weight of a product is no loss."""
    kinds = _judge(script, tracer, node.right, scope, depth - 1)
    return kinds - {"other"} if isinstance(node.op, ast.Mult) else kinds


def _is_number(tracer: Tracer, node: ast.expr, scope: Scope) -> bool:
    value, _ = tracer.follow(node, scope)
    name = getattr(node, "id", getattr(node, "attr", ""))
    return isinstance(value, ast.Constant) or "accum" in name.lower()


def _judge_call(script: Script, tracer: Tracer, call: ast.Call, depth: int) -> set[str]:
    name = script.module.name_of(call.func)
    last = name.rpartition(".")[2]
    function = tracer.function(call)
    if function is not None and function.name != "__init__":
        values = tracer.returns(function)
        return _judge(script, tracer, values[-1], function, depth - 1) if values else {"other"}
    if last == "sum":
        whole = len(call.args) + len(call.keywords) == int(name == "torch.sum")
        return {"added"} if whole and "parameters" not in ast.unparse(call) else {"other"}
    if last == "mean":
        return {"mean"}
    made: ast.expr = call
    if isinstance(call.func, ast.Name | ast.Attribute):
        followed, _ = tracer.follow(call.func, script.scope(call))
        made = followed if isinstance(followed, ast.Call) else call
    if isinstance(made, ast.Call):
        return {_read_reduction(made, script.module.name_of(made.func))}
    return {"other"}


def _read_reduction(call: ast.Call, name: str) -> str:
    """What a loss function, or the class of one, does with the rows."""
    reduction = constant_value(keyword_argument(call, "reduction"))
    if reduction == "sum" or constant_value(keyword_argument(call, "size_average")) is False:
        return "sum"
    is_loss = name.lower().endswith(("loss", "entropy", "entropy_with_logits", "kl_div"))
    return "mean" if is_loss and reduction in (None, "mean", "batchmean") else "other"

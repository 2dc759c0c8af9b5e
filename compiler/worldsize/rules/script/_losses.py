"""Losses that are not scaled, or used past the library that was given the model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.base.problem import Confidence, Finding, Fix, Related
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import (
    find_assigned,
    find_block,
    find_loop,
    list_backward_calls,
    list_conditions,
    list_steps,
)
from worldsize.scripts.module import Module, constant_value, find_mentions, keyword_argument
from worldsize.scripts.program import Program

_LIBRARIES = {
    "Accelerator": "Accelerate neither scales it nor counts it for accumulation",
    "deepspeed.initialize": "older versions of DeepSpeed then do not average its gradients",
}


def check_backward_past_library(context: Context, program: Program) -> Iterator[Finding]:
    if not program.imports("accelerate", "deepspeed"):
        return
    if any(call.args for module in program.modules for _, call in module.callers.get("backward", ())):
        return  # also given to the library, perhaps in another case
    runs = read_reached(program).runs
    for maker, effect in _LIBRARIES.items():
        owners = [name for module in program.modules for name, _, _ in find_assigned(module, maker)]
        if len(set(owners)) != 1 or (maker == "Accelerator" and not _matters(program)):
            continue
        for module, call in program.find(list_backward_calls):
            if runs(module, call) and isinstance(call.func, ast.Attribute) and not call.keywords:
                loss, span = ast.unparse(call.func.value), module.full_span(call)
                message = f"`{loss[:60]}.backward()` bypasses the library that wraps the model: {effect}"
                right = f"{owners[0]}.backward({loss})"
                fix = Fix(span, right, safe=False) if span.line == span.end_line else None
                # newer versions of DeepSpeed average them
                sure: Confidence | None = None if maker == "Accelerator" else "possible"
                help_ = f"write `{right[:80]}`"
                yield Finding(module.span(call), message, help_, program.related, fix, sure)
                return


def _matters(program: Program) -> bool:
    """Whether Accelerate has more to do with a loss than to call ``backward``."""
    return program.refers("prepare") and program.says("fp16", "gradient_accumulation_steps")


_SCALER = re.compile(r"scaler|amp|fp16|half|mixed", re.IGNORECASE)
_NO_GRADIENTS = ("no_grad", "inference_mode", "set_grad_enabled")
_CLIPS = ("clip_grad_norm_", "clip_grad_value_")
_HALF = ("torch.float16", "torch.half")


def check_loss_scaling_incomplete(context: Context, program: Program) -> Iterator[Finding]:
    if not program.complete:
        return
    has_scaler = program.refers("GradScaler", "ShardedGradScaler")
    finding = _judge_scaler(program) if has_scaler else _judge_plain(program)
    if finding is not None:
        yield finding


def _judge_plain(program: Program) -> Finding | None:
    """No scaler at all."""
    runs = read_reached(program).runs
    for module in program.modules:
        trains = {_find_pass(module, call) for call in list_backward_calls(module)}
        for call in module.called("autocast"):
            if _find_pass(module, call) in trains and _is_half(module, call) and runs(module, call):
                message = (
                    "the forward pass is in float16, but no `GradScaler` scales the loss: gradients become 0"
                )
                help_ = "use `torch.amp.GradScaler`, or `dtype=torch.bfloat16` on a GPU that has it"
                return Finding(module.span(call), message, help_, related=program.related)
    return None


def _find_pass(module: Module, node: ast.AST) -> ast.AST | None:
    """The loop or function around a node; None where no gradients are computed."""
    for above, _ in module.ancestors(node):
        mentions = (word for item in getattr(above, "items", ()) for word in find_mentions(item))
        if isinstance(above, ast.With) and not {*mentions}.isdisjoint(_NO_GRADIENTS):
            return None
    return find_loop(module, node) or find_block(module, node)


def _is_half(module: Module, call: ast.Call) -> bool:
    """Whether an autocast is surely in float16."""
    enabled = keyword_argument(call, "enabled")
    if enabled is not None and constant_value(enabled) is not True:
        return False
    name = module.name_of(call.func)
    on_cuda = name.startswith("torch.cuda.")
    first = constant_value(call.args[0] if call.args else keyword_argument(call, "device_type"))
    dtype = keyword_argument(call, "dtype") or next(iter(call.args[1:2]), None)
    if dtype is None:
        return name.startswith("torch.") and (on_cuda or first == "cuda") and (on_cuda or not call.args[1:])
    return module.name_of(dtype) in _HALF and (on_cuda or first != "cpu")


def _judge_scaler(program: Program) -> Finding | None:
    """A scaler that the script bypasses."""
    modules = program.modules
    scales = [(module, call) for module in modules for _, call in module.callers.get("scale", ())]
    applies = [
        (module, call)
        for module in modules
        for _, call in module.callers.get("step", ())
        if call.args and _is_of_scaler(call)
    ]
    if scales and not applies:
        for module, call in scales:
            loop = find_loop(module, call) or find_block(module, call)
            for owner, step in list_steps(module):
                if (find_loop(module, step) or find_block(module, step)) is loop and not step.args:
                    message = (
                        f"`{owner}` applies gradients that are still multiplied by the scale of the loss"
                    )
                    related = (Related(module.span(call), "scaled here"), *program.related)
                    help_ = f"write `scaler.step({owner})`, then `scaler.update()`"
                    return Finding(module.span(step), message, help_, related=related)
    if applies and not scales:
        for module, call in applies:
            for backward in list_backward_calls(module)[:1]:
                message = "this loss is not scaled, but `scaler.step` expects scaled gradients and stops"
                related = (Related(module.span(call), "the step"), *program.related)
                help_ = "write `scaler.scale(loss).backward()`"
                return Finding(module.span(backward), message, help_, related=related)
    if applies and not any(
        _is_of_scaler(call) for module in modules for _, call in module.callers.get("update", ())
    ):
        module, call = applies[0]
        message = "`scaler.update()` is never called, and the next `scaler.step` stops"
        return Finding(module.span(call), message, "call `scaler.update()` after it", related=program.related)
    return _judge_clipping(program, scales) if not program.refers("unscale_") else None


def _is_of_scaler(call: ast.Call) -> bool:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return any("scaler" in word.lower() for word in find_mentions(owner))


def _judge_clipping(program: Program, scales: list[tuple[Module, ast.Call]]) -> Finding | None:
    for module, call in scales:
        for clip in module.called(*_CLIPS):
            same = find_block(module, clip) is find_block(module, call)
            tests = [condition.test for condition in list_conditions(module, clip)]
            asks = any(_SCALER.search(word) for test in tests for word in find_mentions(test))
            if same and not asks:
                message = "the gradients are clipped while they are multiplied by the scale of the loss"
                related = (Related(module.span(call), "scaled here"), *program.related)
                help_ = "call `scaler.unscale_(optimizer)` first"
                return Finding(module.span(clip), message, help_, related=related)
    return None

"""A loss or an optimizer that is used directly, past the library that was given the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Confidence, Finding, Fix
from worldsize.base.span import Span
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import find_assigned, list_backward_calls
from worldsize.scripts.module import Module
from worldsize.scripts.program import Program

_LIBRARIES = {
    "Accelerator": "Accelerate neither scales it nor counts it for accumulation",
    "deepspeed.initialize": "older versions of DeepSpeed then do not average its gradients",
}


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if not program.imports("accelerate", "deepspeed"):
        return
    if any(call.args for module in program.modules for _, call in module.callers.get("backward", ())):
        return  # also given to the library, perhaps in another case
    runs = read_reached(program).runs
    for maker, effect in _LIBRARIES.items():
        owners = [name for module in program.modules for name, _, _ in find_assigned(module, maker)]
        if len(set(owners)) != 1 or (maker == "Accelerator" and not _matters(program)):
            continue
        for module in program.modules:
            for call in list_backward_calls(module):
                if runs(module, call) and isinstance(call.func, ast.Attribute) and not call.keywords:
                    loss = ast.unparse(call.func.value)
                    message = f"`{loss[:60]}.backward()` bypasses the library that wraps the model: {effect}"
                    right = f"{owners[0]}.backward({loss})"
                    fix = Fix(module.full_span(call), right, safe=False) if _is_plain(module, call) else None
                    help_ = f"write `{right[:80]}`"
                    sure: Confidence | None = (
                        None if maker == "Accelerator" else "possible"
                    )  # newer ones of DeepSpeed do
                    yield Finding(module.span(call), message, help_, program.related, fix, sure)
                    return


def _matters(program: Program) -> bool:
    """Whether Accelerate has more to do with a loss than to call ``backward``."""
    return program.refers("prepare") and program.says("fp16", "gradient_accumulation_steps")


def _is_plain(module: Module, call: ast.Call) -> bool:
    span: Span = module.full_span(call)
    return span.line == span.end_line

"""Average the gradients once an optimizer step, where several batches are accumulated."""

from __future__ import annotations

import ast

from worldsize.adopting.distributing.wrapping import Wrapped
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import is_under
from worldsize.adopting.training.search import Training, find_owner

_REASON = "gradients travel once an optimizer step, as with `no_sync`"


def sync_once(script: Script, training: Training, wrapped: Wrapped) -> None:
    """Average the gradients once an optimizer step, where several batches are accumulated."""
    loop = training.batch_loop
    names = {
        node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    _sync_last(script, training, wrapped)
    if not isinstance(loop, ast.For):
        return
    names -= {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for node in ast.walk(loop):
        if not isinstance(node, ast.If) or training.batch_frame or node.orelse:
            continue
        steps = any(_steps_optimizer(script, training, inner) for inner in ast.walk(node))
        counts = any(isinstance(inner, ast.Mod) for inner in ast.walk(node.test))
        known = all(inner.id not in names for inner in ast.walk(node.test) if isinstance(inner, ast.Name))
        if steps and counts and known and "\n" not in script.written(node.test):
            _sync_when(script, loop, wrapped, script.written(node.test))
            return


def _steps_optimizer(script: Script, training: Training, node: ast.AST) -> bool:
    """Whether a call steps the optimizer, and not only a scheduler."""
    if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "step":
        return False
    return script.written(find_owner(node)) == script.written(training.optimizer_name)


def _sync_last(script: Script, training: Training, wrapped: Wrapped) -> None:
    """The same for ``for micro_step in range(steps):`` inside of a step."""
    inner = next(iter(script.module.ancestors(training.backward)), (None, None))[0]
    while inner is not None and not isinstance(inner, ast.For | ast.While | ast.FunctionDef | ast.Module):
        inner = script.module.parents.get(inner)
    if (
        not isinstance(inner, ast.For)
        or inner is training.batch_loop
        or not isinstance(inner.target, ast.Name)
    ):
        return
    counted = inner.iter
    is_range = isinstance(counted, ast.Call) and getattr(counted.func, "id", "") == "range"
    if isinstance(counted, ast.Call) and is_range and len(counted.args) == 1:
        last = script.written(counted.args[0])
        simple = isinstance(counted.args[0], ast.Name | ast.Attribute)
        if simple and inner.target.id != "_" and is_under(script, inner, training.batch_loop):
            _sync_when(script, inner, wrapped, f"{inner.target.id} == {last} - 1")


def _sync_when(script: Script, loop: ast.For, wrapped: Wrapped, test: str) -> None:
    scope = script.scope(loop)
    name = wrapped.name if isinstance(scope, ast.Module) else wrapped.parameters.get(scope, wrapped.name)
    line = f"{name}.require_backward_grad_sync = {test}"
    script.insert_before(loop.body[0], [line], "WS918", _REASON)

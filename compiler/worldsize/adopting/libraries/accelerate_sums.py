"""What a loop over a prepared loader adds up is of the rows of one process: Accelerate reduces it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from worldsize.adopting.distributing.metrics import list_sums
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.scripts.bindings import is_parameter

_GATHERS = frozenset({"gather", "gather_for_metrics", "reduce"})
_MAIN_ONLY = re.compile(r"\bis_(?:local_)?main_process\b")
_REASON = "the metric is of the rows of all processes"


def reduce_sums(script: Script, tracer: Tracer, accelerator: str, prepared: Collection[str]) -> None:
    """Reduce sums behind the loop that adds them up, where what divides them tells how; else say it."""
    for loop in script.module.kinds.get(ast.For, ()):
        loaders = {script.written(each) for each in ast.walk(loop.iter) if isinstance(each, ast.Name)}
        calls = {getattr(node.func, "attr", "") for node in ast.walk(loop) if isinstance(node, ast.Call)}
        loaders &= set(prepared)
        if not loaders or calls & _GATHERS:
            continue
        nodes = list(ast.walk(loop))
        sums = [name for name in list_sums(nodes) if not _is_gathered(script, name)]
        hows = {
            name: _find_reduction(script, tracer, loop, name, loaders=loaders, sums=sums) for name in sums
        }
        can_reduce = _can_reduce(script, tracer, loop, accelerator)
        lines = []
        for name, how in hows.items():
            if can_reduce and how is not None:
                lines.append(_write(script, name, how, accelerator))
            elif "backward" not in calls:
                help_ = f"gather first: `{accelerator}.gather_for_metrics((predictions, labels))`"
                message = f"`{name}` adds up the rows of one process, of which each has a share"
                script.leave(loop, message, help_)
        if lines:
            script.insert_after(loop, lines, None, _REASON)


def _is_gathered(script: Script, name: str) -> bool:
    return any(
        getattr(node, "id", "") == name
        for call in script.module.called("reduce", "gather")
        for node in ast.walk(call)
    )


def _can_reduce(script: Script, tracer: Tracer, loop: ast.For, accelerator: str) -> bool:
    """Whether the accelerator has its name here, and all processes come here."""
    for above, _ in script.module.ancestors(loop):
        if isinstance(above, ast.If) and _MAIN_ONLY.search(ast.unparse(above.test)):
            return False
    return is_bound(script, tracer, loop, accelerator)


def is_bound(script: Script, tracer: Tracer, node: ast.AST, accelerator: str) -> bool:
    """Whether the accelerator has its name at a node."""
    scope = script.scope(node)
    if not accelerator.isidentifier():
        return accelerator.startswith("self.") and is_parameter(scope, "self")
    known = tracer.bindings(accelerator, scope) or tracer.bindings(accelerator, script.module.tree)
    return bool(known) or is_parameter(scope, accelerator)


def _find_reduction(
    script: Script, tracer: Tracer, loop: ast.For, name: str, *, loaders: set[str], sums: list[str]
) -> str | None:
    """`mean` of a sum over batches, `sum` of one over rows; what divides it tells which.

    Accelerate fills the last batches up, so that the rows of the dataset are fewer than those added up.
    """
    counted = {
        node.target.id
        for node in ast.walk(loop)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    for divided, by in _list_divisions(script, loop):
        value, _ = tracer.follow(by, script.scope(loop))
        if name in sums and name == getattr(by, "id", ""):
            return "sum"
        if not any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(divided)):
            continue
        if isinstance(by, ast.Name) and by.id in counted:
            return "sum" if by.id in sums else "mean"
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "len" and value.args:
            return "mean" if script.written(value.args[0]) in loaders else None
    return None


def _list_divisions(script: Script, loop: ast.For) -> list[tuple[ast.expr, ast.expr]]:
    """``total / count`` and ``total /= count`` in the function of a loop."""
    scope = script.scope(loop)
    found = [
        (node.left, node.right)
        for node in script.module.kinds.get(ast.BinOp, ())
        if isinstance(node.op, ast.Div) and script.scope(node) is scope
    ]
    return found + [
        (node.target, node.value)
        for node in script.module.kinds.get(ast.AugAssign, ())
        if isinstance(node.op, ast.Div) and script.scope(node) is scope
    ]


def _write(script: Script, name: str, how: str, accelerator: str) -> str:
    """The line that reduces; a tensor of which the script reads a part stays one."""
    if any(getattr(each.value, "id", "") == name for each in script.module.kinds.get(ast.Attribute, ())):
        return f'{name} = {accelerator}.reduce({name}, "{how}")'
    number = f"float({name})" if how == "mean" else name
    tensor = f"torch.tensor({number}, device={accelerator}.device)"
    return f'{name} = {accelerator}.reduce({tensor}, "{how}").item()'

"""What a loop over batches collects beside sums: lists of losses, and meters that average them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from worldsize.adopting.source.reading import list_classes_beside
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Loop, Tracer
from worldsize.adopting.training.search import Training

_MEASURES = frozenset({"item", "detach", "sum", "size", "numel", "tolist"})
_PARTS = frozenset({"sum", "count"})
Nodes: TypeAlias = Sequence[ast.AST]


class Collected(Struct, frozen=True, eq=False):
    """A list or meter that a loop over batches fills."""

    name: str
    call: ast.Call  # that fills it
    can_reduce: bool  # all processes have it alike long, or from the loop's start to its end
    keeps_average: bool = False  # a meter, beside its sum


def is_measured(value: ast.AST) -> bool:
    """Whether an expression is of a batch: a number of a tensor, or the length of one."""
    calls = (node.func for node in ast.walk(value) if isinstance(node, ast.Call))
    text = ast.unparse(value)
    return (
        any(isinstance(func, ast.Attribute) and func.attr in _MEASURES for func in calls)
        or "len(" in text
        or "shape" in text
    )


def list_lists(script: Script, training: Training, nodes: Nodes) -> Iterator[Collected]:
    """The lists to which the loop, of which the nodes are, appends numbers of a batch.

    They are reduced if each entry is a mean over rows, and one is appended for each batch.
    """
    loop = training.batch_loop
    assert isinstance(training.backward.func, ast.Attribute)
    losses = {f"{script.written(training.backward.func.value)}.item()"}
    leaves = any(isinstance(node, ast.Continue | ast.Break) for node in ast.walk(loop))
    for node in nodes:
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "append" or not node.args:
            continue
        assert isinstance(node.func, ast.Attribute)
        if not is_measured(node.args[0]):
            continue
        text = ast.unparse(node.args[0])
        is_mean = text in losses or ".mean()" in text
        always = isinstance(loop, ast.For | ast.While) and script.statement(node) in loop.body and not leaves
        can_reduce = always and is_mean and text.endswith(".item()")
        yield Collected(script.written(node.func.value), node, can_reduce)


def list_meters(script: Script, tracer: Tracer, loop: Loop, nodes: Nodes) -> Iterator[Collected]:
    """The meters of the script that the loop, of which the nodes are, updates with numbers of a batch.

    They are reduced if they are made right before the loop and read behind it.
    """
    for node in nodes:
        func = node.func if isinstance(node, ast.Call) else None
        if (
            not isinstance(func, ast.Attribute)
            or func.attr != "update"
            or not isinstance(func.value, ast.Name)
        ):
            continue
        assert isinstance(node, ast.Call)
        name, scope = func.value.id, script.scope(loop)
        bound = tracer.bindings(name, scope)
        kept = _list_kept(tracer, bound[0][1]) if len(bound) == 1 else frozenset()
        if not any(map(is_measured, node.args)) or not kept >= _PARTS:
            continue
        statement = script.statement(loop)
        block = script.block(statement)
        fresh = bound[0][0] in block[: block.index(statement)]
        end = statement.end_lineno or 0
        read = (each for each in script.module.kinds.get(ast.Name, ()) if each.id == name)
        later = any(each.lineno > end and script.scope(each) is scope for each in read)
        yield Collected(name, node, fresh and later, "avg" in kept)


def _list_kept(tracer: Tracer, value: ast.expr) -> frozenset[str]:
    """The attributes that an object of the script's own class sets, or of one beside the script."""
    name = getattr(value.func, "id", "") if isinstance(value, ast.Call) else ""
    class_ = tracer.classes.get(name) or dict(list_classes_beside(tracer.module)).get(name)
    if class_ is None:
        return frozenset()
    nodes = (node for node in ast.walk(class_) if isinstance(node, ast.Attribute))
    return frozenset(node.attr for node in nodes if isinstance(node.ctx, ast.Store))


def list_shown(script: Script, loop: Loop, names: list[str]) -> dict[str, ast.AST]:
    """Those that the loop itself reads, as a progress bar does, and not only changes."""
    shown: dict[str, ast.AST] = {}
    for node in ast.walk(loop):
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript) or isinstance(node.ctx, ast.Store):
            continue
        above = script.module.parents[node]
        changes = isinstance(above, ast.Attribute) and above.attr in ("append", "update", "reset")
        if not changes and script.written(node) in names:
            shown.setdefault(script.written(node), node)
    return shown

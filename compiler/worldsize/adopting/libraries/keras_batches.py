"""The batch of a dataset of TensorFlow, which the strategy divides among the workers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.adopting.options.flags import set_by_flag
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.scripts.bindings import Scope
from worldsize.scripts.module import constant_value, keyword_argument

_BATCHES = ("batch", "padded_batch")
_READERS = (
    "image_dataset_from_directory",
    "text_dataset_from_directory",
    "audio_dataset_from_directory",
    "timeseries_dataset_from_array",
    "make_csv_dataset",
)
_REASON = "Keras divides this batch among the workers"


def set_batch_size(script: Script, tracer: Tracer, parser: Parser, fit: ast.Call, strategy: str) -> None:
    """Multiply the batch that `fit` is given, or that its dataset has, by the number of replicas."""
    size = keyword_argument(fit, "batch_size")
    sizes = [size] if size is not None else []
    if not sizes:
        rows = keyword_argument(fit, "x") or next(iter(fit.args), None)
        found = next(_list_sizes(tracer, rows, script.scope(fit), set()), None) if rows is not None else None
        sizes = [each for each in _list_all(script) if _is_same(script, tracer, each, found)]
    if not sizes:
        help_ = f"batch it by the rows of all workers: `{strategy}.num_replicas_in_sync` times as many"
        script.leave(fit, "`fit` is given no batch size here", help_)
        return
    known: set[ast.expr] = set()
    for each in sizes:
        value, _ = tracer.follow(each, script.scope(each))
        if value not in known:
            set_by_flag(script, tracer, parser, "batch_size", each)
        known.add(value)
        script.insert_behind(each, f" * {strategy}.num_replicas_in_sync", None, _REASON)
    steps = keyword_argument(fit, "steps_per_epoch")
    if steps is not None and constant_value(steps) is None and size is None:
        help_ = f"divide them by `{strategy}.num_replicas_in_sync`"
        script.leave(steps, "these steps count batches, which several workers make larger", help_)


def _list_all(script: Script) -> Iterator[ast.expr]:
    """The sizes of all batches of datasets: those of training, and of what is evaluated like it."""
    for call in script.module.called(*_BATCHES, *_READERS):
        size = _find_size(script, call)
        if size is not None and isinstance(call.func, ast.Attribute):
            yield size


def _find_size(script: Script, call: ast.Call) -> ast.expr | None:
    last = script.module.name_of(call.func).rpartition(".")[2]
    by_place = next(iter(call.args), None) if last in _BATCHES else None
    return keyword_argument(call, "batch_size") or by_place


def _is_same(script: Script, tracer: Tracer, size: ast.expr, other: ast.expr | None) -> bool:
    """Whether two batches have one size, by what their texts stand for."""
    if other is None or size is other:
        return other is not None
    values = [tracer.follow(each, script.scope(each))[0] for each in (size, other)]
    alike = ast.dump(values[0]) == ast.dump(values[1]) and isinstance(values[0], ast.Constant | ast.Attribute)
    return values[0] is values[1] or alike


def _list_sizes(tracer: Tracer, node: ast.expr, scope: Scope, seen: set[ast.AST]) -> Iterator[ast.expr]:
    """The sizes of the batches that an expression draws, through names, methods and functions."""
    if node in seen:
        return
    seen.add(node)
    script = tracer.script
    if isinstance(node, ast.Name):
        bound = tracer.bindings(node.id, scope)
        for statement, value, _ in reversed(bound):
            yield from _list_sizes(tracer, value, script.scope(statement), seen)
        step, where = tracer.follow(node, scope)
        if not bound and step is not node:
            yield from _list_sizes(tracer, step, where, seen)
    if not isinstance(node, ast.Call):
        return
    last = script.module.name_of(node.func).rpartition(".")[2]
    if last in (*_BATCHES, *_READERS) and (size := _find_size(script, node)) is not None:
        yield size
        return
    function = tracer.function(node)
    for value in tracer.returns(function) if function is not None else ():
        assert function is not None
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        for part in parts:
            yield from _list_sizes(tracer, part, function, seen)
    if isinstance(node.func, ast.Attribute):
        yield from _list_sizes(tracer, node.func.value, scope, seen)

"""Batches of an iterator that begins its loader anew: `next(batches)`, `cycle(loader)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Loop, Tracer, read_iterable
from worldsize.adopting.training.evaluations import without_gradient
from worldsize.adopting.training.feeding import Feed, unwrap_loader
from worldsize.scripts.bindings import Function

_REASON = "the rows come in a new order each time around"


def list_taken(script: Script, loop: Loop) -> Iterator[ast.expr]:
    """What a loop takes batches from by ``next``, beside what it iterates over."""
    for node in ast.walk(loop):
        takes = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "next"
        if isinstance(node, ast.Call) and takes and node.args and not without_gradient(script, node, loop):
            yield node.args[0]


def find_repeated(script: Script, tracer: Tracer, loop: Loop, node: ast.expr) -> Feed | None:
    """The loader behind ``cycle(loader)``, or behind a name of such an iterator."""
    for call in _list_makers(script, tracer, loop, node):
        for argument in call.args:
            loader, _ = unwrap_loader(script, tracer, argument, script.scope(call))
            if loader is not None:
                return Feed("loader", loader, argument, maker=call)
    return None


def _list_makers(script: Script, tracer: Tracer, loop: Loop, node: ast.expr) -> Iterator[ast.Call]:
    """The calls that make the iterator: around a name in the head of a loop, or bound to that name."""
    iterable = read_iterable(loop)
    inside = {id(each) for each in ast.walk(iterable)} if iterable is not None else set()
    for above, _ in script.module.ancestors(node):
        if id(above) not in inside:
            break
        if isinstance(above, ast.Call) and _repeats(script, tracer, above):
            yield above
    values: list[ast.expr] = [node] if isinstance(node, ast.Call) else []
    if isinstance(node, ast.Name):
        values += [value for _, value, _ in tracer.bindings(node.id, script.scope(loop))]
    for value in values:
        for each in ast.walk(value):
            makes = isinstance(each, ast.Call) and getattr(each.func, "id", "") == "iter"
            if isinstance(each, ast.Call) and each.args and (makes or _repeats(script, tracer, each)):
                yield each


def _repeats(script: Script, tracer: Tracer, call: ast.Call) -> bool:
    return _is_cycle(script, call) or _find_generator(tracer, call) is not None


def _is_cycle(script: Script, call: ast.Call) -> bool:
    return script.module.name_of(call.func) == "itertools.cycle"


def _find_generator(tracer: Tracer, call: ast.Call) -> tuple[Function, ast.stmt, ast.expr] | None:
    """The function of the script that repeats a loader: what gives its batches there, and the loader."""
    function = tracer.function(call)
    for node in ast.walk(function) if function is not None else ():
        if not isinstance(tracer.module.parents.get(node), ast.While):
            continue
        assert function is not None
        if isinstance(node, ast.For) and any(isinstance(each, ast.Yield) for each in ast.walk(node)):
            return function, node, _unwrap(node.iter)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.YieldFrom):
            return function, node, _unwrap(node.value.value)
    return None


def begin_anew(script: Script, tracer: Tracer, feed: Feed, loop: Loop) -> None:
    """Draw another order wherever the iterator of a feed begins its loader anew.

    Raises:
        AdoptError: The script's own generator serves other loaders too.
    """
    assert feed.maker is not None
    if _is_cycle(script, feed.maker):
        help_ = "iterate over the loader again in a generator of your own, `while True: yield from loader`"
        message = "`itertools.cycle` repeats the batches of the first epoch, in their order"
        script.leave(feed.maker, message, help_)
    elif (found := _find_generator(tracer, feed.maker)) is not None:
        function, inner, loader = found
        calls = tracer.calls(function)
        if len(calls) > 1:
            help_ = "give the training rows a generator of their own"
            raise script.refuse(calls[1], f"`{function.name}` repeats a second loader here", help_)
        _set_next_epoch(script, inner, loader)
    else:
        for call in _list_rebound(script, feed.maker, loop):
            _set_next_epoch(script, script.statement(call), call.args[0])


def _unwrap(node: ast.expr) -> ast.expr:
    """``loader`` of ``tqdm(enumerate(loader))``."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return node


def _list_rebound(script: Script, maker: ast.Call, loop: Loop) -> Iterator[ast.Call]:
    """``iter(loader)`` where the loop itself makes the iterator again, as at its end."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and script.written(node) == script.written(maker):
            yield node


def _set_next_epoch(script: Script, statement: ast.stmt, loader: ast.expr) -> None:
    name = script.written(loader)
    line = f"{name}.sampler.set_epoch({name}.sampler.epoch + 1)"
    script.insert_before(statement, [line], "WS902", _REASON)
